import java.io.PrintStream;
import java.lang.reflect.Method;

/**
 * Runs one Kafka controller or broker that cannot outlive the lab.
 *
 * <p>Standard input is a pipe from the lab: its end means that the lab is gone, however that
 * happened, and the process halts. Formatting the storage in the same JVM saves a JVM start.
 *
 * <p>Usage: {@code LabBroker server.properties [argument of the storage tool]...}
 */
public final class LabBroker {
    private LabBroker() {}

    public static void main(String[] arguments) throws Exception {
        Thread watch = new Thread(LabBroker::haltAtEndOfInput, "lab-watch");
        watch.setDaemon(true);
        watch.start();
        if (arguments.length > 1) {
            format(java.util.Arrays.copyOfRange(arguments, 1, arguments.length));
        }
        Class<?> kafka = Class.forName("kafka.Kafka");
        kafka.getMethod("main", String[].class)
                .invoke(null, (Object) new String[] {arguments[0]});
    }

    private static void format(String[] arguments) throws Exception {
        Method execute =
                Class.forName("kafka.tools.StorageTool")
                        .getMethod("execute", String[].class, PrintStream.class);
        int code = (Integer) execute.invoke(null, arguments, System.out);
        if (code != 0) {
            throw new IllegalStateException("the storage tool ended with " + code);
        }
    }

    private static void haltAtEndOfInput() {
        try {
            while (System.in.read() >= 0) {
                continue;
            }
        } catch (java.io.IOException error) {
            System.err.println("standard input cannot be read: " + error);
        }
        Runtime.getRuntime().halt(0);
    }
}
