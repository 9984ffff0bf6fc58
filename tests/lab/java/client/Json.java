import java.util.Map;

/** Writes maps, lists, numbers, booleans and strings as one line of JSON. */
final class Json {
    private Json() {}

    static String write(Object value) {
        StringBuilder out = new StringBuilder();
        append(out, value);
        return out.toString();
    }

    private static void append(StringBuilder out, Object value) {
        if (value == null || value instanceof Boolean || value instanceof Number) {
            out.append(value);
        } else if (value instanceof Map) {
            appendMap(out, (Map<?, ?>) value);
        } else if (value instanceof Iterable) {
            appendList(out, (Iterable<?>) value);
        } else {
            appendString(out, value.toString());
        }
    }

    private static void appendMap(StringBuilder out, Map<?, ?> map) {
        String separator = "";
        out.append('{');
        for (Map.Entry<?, ?> entry : map.entrySet()) {
            out.append(separator);
            appendString(out, String.valueOf(entry.getKey()));
            out.append(':');
            append(out, entry.getValue());
            separator = ",";
        }
        out.append('}');
    }

    private static void appendList(StringBuilder out, Iterable<?> list) {
        String separator = "";
        out.append('[');
        for (Object item : list) {
            out.append(separator);
            append(out, item);
            separator = ",";
        }
        out.append(']');
    }

    private static void appendString(StringBuilder out, String text) {
        out.append('"');
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ' || c > '~') {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }
}
