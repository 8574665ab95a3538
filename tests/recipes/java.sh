. "$RECIPES/lib.sh"
needs java
cat >Job.java <<'JAVA'
import java.util.*;
public class Job {
    public static void main(String[] a) {
        List<String> all = new ArrayList<>();
        for (int i = 0; i < 700_000; i++) all.add("row " + i + " of a table that is kept in memory");
        long sum = 0;
        for (String row : all) sum += row.hashCode();
        System.out.println(sum + " " + Runtime.getRuntime().maxMemory() / (1 << 20));
    }
}
JAVA
javac Job.java 2>/dev/null || skip "no javac"
neap run -m 96M -- java -Xmx256m -XX:+UseSerialGC Job >managed # the line
must_have_paged
java -Xmx256m -XX:+UseSerialGC Job | cmp - managed
