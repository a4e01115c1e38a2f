import com.github.f4b6a3.tsid.Tsid;
import com.github.f4b6a3.tsid.TsidCreator;
import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;

/** Java's libraries for ids: see ../run for what is asked of a peer. */
public final class Peer {
  private static String read(String text) {
    Tsid id = Tsid.from(text);
    return String.format("%016x\t%d", id.toLong(), id.getUnixMilliseconds());
  }

  public static void main(String[] arguments) throws Exception {
    PrintStream out = new PrintStream(new BufferedOutputStream(System.out));
    switch (arguments[0]) {
      case "formats" -> out.print("read\ttsid\nmake\ttsid\n");
      case "read" -> new BufferedReader(new InputStreamReader(System.in))
          .lines().forEach(line -> out.print(read(line) + "\n"));
      case "make" -> {
        for (int i = 0; i < Integer.parseInt(arguments[2]); ++i) {
          String text = TsidCreator.getTsid().toString();
          out.print(text + "\t" + read(text) + "\n");
        }
      }
      default -> throw new IllegalArgumentException(arguments[0]);
    }
    out.flush();
  }
}
