import java.io.UnsupportedEncodingException;
import java.net.URLDecoder;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;

/** One command: {@code id TAB verb TAB key=value ...}, the values percent-encoded. */
final class Request {
    /** A key with this prefix is a property of the Kafka client. */
    private static final String PROPERTY = "p.";

    final String id;
    final String verb;
    private final Map<String, String> arguments = new LinkedHashMap<>();

    Request(String line) {
        String[] parts = line.split("\t");
        id = parts[0];
        verb = parts[1];
        for (int i = 2; i < parts.length; i++) {
            int equals = parts[i].indexOf('=');
            arguments.put(parts[i].substring(0, equals), decode(parts[i].substring(equals + 1)));
        }
    }

    private static String decode(String text) {
        try {
            return URLDecoder.decode(text, "UTF-8");
        } catch (UnsupportedEncodingException error) {
            throw new IllegalStateException("a JVM without UTF-8", error);
        }
    }

    String text(String key) {
        String value = arguments.get(key);
        if (value == null) {
            throw new IllegalArgumentException(verb + " needs " + key + "=");
        }
        return value;
    }

    String text(String key, String otherwise) {
        return arguments.getOrDefault(key, otherwise);
    }

    long number(String key, long otherwise) {
        String value = arguments.get(key);
        return value == null ? otherwise : Long.parseLong(value);
    }

    boolean flag(String key, boolean otherwise) {
        String value = arguments.get(key);
        return value == null ? otherwise : Boolean.parseBoolean(value);
    }

    /** The comma separated values; empty if the key is absent. */
    List<String> list(String key) {
        List<String> items = new ArrayList<>();
        for (String item : arguments.getOrDefault(key, "").split(",")) {
            if (!item.isEmpty()) {
                items.add(item);
            }
        }
        return items;
    }

    Properties properties() {
        Properties properties = new Properties();
        arguments.forEach(
                (key, value) -> {
                    if (key.startsWith(PROPERTY)) {
                        properties.put(key.substring(PROPERTY.length()), value);
                    }
                });
        return properties;
    }
}
