import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;

/** A session that has much and is asked little: `Session MIB`. Each line on standard input is a request, which reads an eighth. */
class Session {
    record Row(long number, String text, int[] list) {}

    public static void main(String[] words) throws Exception {
        int rows = Integer.parseInt(words[0]) * 4400;
        var table = new HashMap<Integer, Row>();
        for (int row = 0; row < rows; row++) {
            table.put(row, new Row(row, "value of row " + row + " in a table", new int[] {row % 7, row % 11}));
        }
        System.out.println("ready");
        var requests = new BufferedReader(new InputStreamReader(System.in));
        for (int number = 0; requests.readLine() != null; number++) {
            long sum = 0;
            for (int row = number % 8 * (rows / 8); row < (number % 8 + 1) * (rows / 8); row++) {
                sum += table.get(row).number() + table.get(row).text().length();
            }
            System.out.println(sum);
        }
    }
}
