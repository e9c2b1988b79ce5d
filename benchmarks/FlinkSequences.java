import java.lang.management.ManagementFactory;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import org.apache.flink.api.common.state.KeyedStateStore;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.typeutils.base.StringSerializer;
import org.apache.flink.cep.configuration.SharedBufferCacheConfig;
import org.apache.flink.cep.nfa.NFA;
import org.apache.flink.cep.nfa.NFAState;
import org.apache.flink.cep.nfa.aftermatch.AfterMatchSkipStrategy;
import org.apache.flink.cep.nfa.compiler.NFACompiler;
import org.apache.flink.cep.nfa.sharedbuffer.SharedBuffer;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.SimpleCondition;

/**
 * A ->> B ->> C in FlinkCEP, driven event by event on plain hash maps: no cluster, no network and no
 * serialisation, which favours it. Arguments: a file with one letter per event, and the window.
 * Prints the number of matches and the CPU seconds.
 */
public class FlinkSequences {
    static class Heap<K, V> implements MapState<K, V> {
        final HashMap<K, V> map = new HashMap<>();
        public V get(K key) { return map.get(key); }
        public void put(K key, V value) { map.put(key, value); }
        public void putAll(Map<K, V> other) { map.putAll(other); }
        public void remove(K key) { map.remove(key); }
        public boolean contains(K key) { return map.containsKey(key); }
        public Iterable<Map.Entry<K, V>> entries() { return map.entrySet(); }
        public Iterable<K> keys() { return map.keySet(); }
        public Iterable<V> values() { return map.values(); }
        public Iterator<Map.Entry<K, V>> iterator() { return map.entrySet().iterator(); }
        public boolean isEmpty() { return map.isEmpty(); }
        public void clear() { map.clear(); }
    }

    static SimpleCondition<String> is(char letter) {
        return SimpleCondition.of(event -> event.charAt(0) == letter);
    }

    public static void main(String[] arguments) throws Exception {
        String events = Files.readString(Path.of(arguments[0])).trim();
        long window = Long.parseLong(arguments[1]);
        String steps = arguments[2];
        Pattern<String, String> pattern =
            Pattern.<String>begin("0").where(is(steps.charAt(0)));
        for (int step = 1; step < steps.length(); step++) {
            pattern = pattern.followedByAny("" + step).where(is(steps.charAt(step)));
        }
        pattern = pattern.within(Duration.ofMillis(window + 1));
        NFA<String> nfa = NFACompiler.compileFactory(pattern, false).createNFA();
        KeyedStateStore store = (KeyedStateStore) Proxy.newProxyInstance(
            FlinkSequences.class.getClassLoader(), new Class<?>[] {KeyedStateStore.class},
            (self, method, given) -> new Heap<Object, Object>());
        SharedBuffer<String> buffer = new SharedBuffer<>(store, StringSerializer.INSTANCE,
            new SharedBufferCacheConfig(100_000, 100_000, Duration.ofDays(1)));
        NFAState state = nfa.createInitialNFAState();
        AfterMatchSkipStrategy strategy = AfterMatchSkipStrategy.noSkip();
        long found = 0;
        var clock = ManagementFactory.getThreadMXBean();
        long begin = clock.getCurrentThreadCpuTime();
        for (int row = 0; row < events.length(); row++) {
            try (var accessor = buffer.getAccessor()) {
                nfa.advanceTime(accessor, state, row, strategy);
                found += nfa.process(accessor, state, events.charAt(row) + "" + row, row, strategy,
                    () -> 0L).size();
            }
        }
        System.out.println(found + " " + (clock.getCurrentThreadCpuTime() - begin) / 1e9);
        System.exit(0);
    }
}
