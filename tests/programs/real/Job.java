import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;

/** Maps, lists, strings, an archive of text and two threads; prints digests. Argument: how many objects. */
public class Job {
    record Item(int id, String name, long score, int[] more) {}

    static long mix(long x) {
        x += 0x9e3779b97f4a7c15L;
        x = (x ^ (x >>> 30)) * 0xbf58476d1ce4e5b9L;
        return x ^ (x >>> 31);
    }

    /** A kilobyte of text for each object, in pages that nobody needs until the end. */
    static List<byte[]> archive(int n) {
        List<byte[]> pages = new ArrayList<>();
        for (int i = 0; i < n / 1024; i++) {
            byte[] page = new byte[1 << 20];
            for (int at = 0; at < page.length; at += 64) {
                byte[] line = ("page " + i + " line " + mix(at + i) + " of the archive").getBytes();
                System.arraycopy(line, 0, page, at, Math.min(line.length, 64));
            }
            pages.add(page);
        }
        return pages;
    }

    static long digest(List<byte[]> pages) {
        long digest = 7;
        for (byte[] page : pages)
            digest = mix(digest ^ java.util.Arrays.hashCode(page));
        return digest;
    }

    public static void main(String[] args) throws Exception {
        int n = Integer.parseInt(args[0]);
        List<byte[]> archive = archive(n);
        List<Item> items = new ArrayList<>();
        for (int i = 0; i < n; i++)
            items.add(new Item(i, "name-" + Math.floorMod(mix(i), 5000), Math.floorMod(mix(i * 31L), 100000), new int[i % 16]));
        Map<String, List<Item>> byName = new HashMap<>();
        for (Item i : items)
            byName.computeIfAbsent(i.name(), k -> new ArrayList<>()).add(i);
        items.sort((a, b) -> a.score() != b.score() ? Long.compare(a.score(), b.score()) : Integer.compare(a.id(), b.id()));
        long digest = 7;
        for (Item i : items)
            digest = mix(digest ^ i.id() ^ i.name().hashCode() ^ i.more().length);
        System.out.println("sorted " + Long.toHexString(digest));
        digest = 7;
        for (String name : byName.keySet().stream().sorted().toList())
            digest = mix(digest ^ byName.get(name).stream().mapToLong(Item::score).sum());
        System.out.println("names " + Long.toHexString(digest));
        long[] sums = new long[2];
        Thread[] threads = new Thread[2];
        for (int t = 0; t < 2; t++) {
            int part = t;
            threads[t] = new Thread(() -> {
                List<byte[]> junk = new ArrayList<>();
                for (int i = 0; i < n / 20; i++) {
                    byte[] b = new byte[4096];
                    java.util.Arrays.fill(b, (byte) (i * (part + 1)));
                    junk.add(b);
                    if (junk.size() > n / 100)
                        junk.subList(0, n / 200).clear();
                }
                sums[part] = junk.stream().mapToLong(b -> IntStream.range(0, 4096).map(i -> b[i]).sum()).sum();
            });
            threads[t].start();
        }
        for (Thread t : threads)
            t.join();
        System.out.println("archive " + Long.toHexString(digest(archive)));
        System.out.println("threads " + sums[0] + " " + sums[1]);
    }
}
