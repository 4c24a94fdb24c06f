import io.confluent.parallelconsumer.ParallelConsumerOptions;
import io.confluent.parallelconsumer.ParallelConsumerOptions.CommitMode;
import io.confluent.parallelconsumer.ParallelConsumerOptions.ProcessingOrder;
import io.confluent.parallelconsumer.ParallelStreamProcessor;
import io.confluent.parallelconsumer.PollContext;
import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import org.apache.kafka.clients.consumer.ConsumerInterceptor;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The peer "parallel-consumer": what benchmarks/child.py is for the others, in Java.
 *
 * <p>In: a job as name=value arguments; "go" and "stop" on standard input. Out: the lines of
 * benchmarks/job.py, and the journal of benchmarks/handler.py. It ends with its parent. Order by
 * key, commits each 100 ms unless the job says otherwise, as asynchronously as by default. Where
 * handlers send, outputs and offsets leave in transactions.
 */
public final class Main {
  private static final byte[] SPECIAL = "special".getBytes(StandardCharsets.UTF_8);
  private static final byte[] NO_KEY = {};
  private static final long COMMIT_EVERY_MS = 100;
  private static final int BATCH = 256;

  private final Map<String, String> job;
  private final String work;
  private final double workMs;
  private final double specialMs;
  private final boolean atOnce;
  private final boolean notes;
  private final AtomicLong firstNs = new AtomicLong();
  private final LongAdder handled = new LongAdder();
  private final CountDownLatch go = new CountDownLatch(1);
  private final CountDownLatch stop = new CountDownLatch(1);
  private final Queue<List<Row>> kept = new ConcurrentLinkedQueue<>();
  private final ThreadLocal<List<Row>> own =
      ThreadLocal.withInitial(
          () -> {
            List<Row> rows = new ArrayList<>();
            kept.add(rows);
            return rows;
          });
  private FileChannel journal;
  private volatile boolean joined;

  /** A record that was handled. */
  private record Row(int partition, long offset, long begunNs, long endedNs, byte[] key) {
    byte[] line() {
      String text = partition + " " + offset + " " + begunNs + " " + endedNs + " ";
      byte[] head = text.getBytes(StandardCharsets.US_ASCII);
      byte[] line = Arrays.copyOf(head, head.length + key.length + 1);
      System.arraycopy(key, 0, line, head.length, key.length);
      line[line.length - 1] = '\n';
      return line;
    }
  }

  /** Notes when commits succeed; Kafka's client makes it by its name. */
  public static final class Commits implements ConsumerInterceptor<byte[], byte[]> {
    private static volatile long lastNs;
    private static final AtomicLong COUNT = new AtomicLong();

    @Override
    public ConsumerRecords<byte[], byte[]> onConsume(ConsumerRecords<byte[], byte[]> records) {
      return records;
    }

    @Override
    public void onCommit(Map<TopicPartition, OffsetAndMetadata> offsets) {
      lastNs = System.nanoTime();
      COUNT.incrementAndGet();
    }

    @Override
    public void close() {}

    @Override
    public void configure(Map<String, ?> configs) {}
  }

  private Main(Map<String, String> job) throws IOException {
    this.job = job;
    work = job.get("work");
    workMs = Double.parseDouble(job.get("work_ms"));
    double special = Double.parseDouble(job.get("special_ms"));
    specialMs = special > 0 ? special : workMs;
    atOnce = Boolean.parseBoolean(job.get("at_once"));
    notes = !job.get("journal").isEmpty();
    if (notes && atOnce) {
      journal =
          FileChannel.open(
              journalPath(),
              StandardOpenOption.CREATE,
              StandardOpenOption.WRITE,
              StandardOpenOption.APPEND);
    }
  }

  /** Runs a job. */
  public static void main(String[] arguments) throws Exception {
    Map<String, String> job = new HashMap<>();
    for (String argument : arguments) {
      int at = argument.indexOf('=');
      job.put(argument.substring(0, at), argument.substring(at + 1));
    }
    new Main(job).run();
    Runtime.getRuntime().halt(0);
  }

  private void run() throws Exception {
    Thread obeying = new Thread(this::obey);
    obeying.setDaemon(true);
    obeying.start();
    KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings());
    boolean batches = work.equals("batch");
    String outputs = job.get("outputs");
    long intervalMs = Long.parseLong(job.get("interval_ms"));
    KafkaProducer<byte[], byte[]> producer =
        outputs.isEmpty() ? null : new KafkaProducer<>(producerSettings());
    var options =
        ParallelConsumerOptions.<byte[], byte[]>builder()
            .consumer(consumer)
            .producer(producer)
            .ordering(ProcessingOrder.KEY)
            .maxConcurrency(Integer.parseInt(job.get("width")))
            .commitMode(
                producer == null
                    ? CommitMode.PERIODIC_CONSUMER_ASYNCHRONOUS
                    : CommitMode.PERIODIC_TRANSACTIONAL_PRODUCER)
            .commitInterval(Duration.ofMillis(intervalMs > 0 ? intervalMs : COMMIT_EVERY_MS))
            .batchSize(batches ? BATCH : 1)
            .build();
    var processor = ParallelStreamProcessor.createEosStreamProcessor(options);
    say("ready", "");
    go.await();
    long cpuBeforeNs = cpuNs();
    processor.subscribe(
        List.of(job.get("topic")),
        new ConsumerRebalanceListener() {
          @Override
          public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            joined = true;
          }

          @Override
          public void onPartitionsRevoked(Collection<TopicPartition> partitions) {}
        });
    if (producer == null) {
      processor.poll(batches ? this::handleBatch : this::handleOne);
    } else {
      Thread watching = new Thread(() -> watchCommits(producer));
      watching.setDaemon(true);
      watching.start();
      processor.pollAndProduce(
          context -> {
            handleOne(context);
            ConsumerRecord<byte[], byte[]> record = context.getSingleConsumerRecord();
            byte[] place =
                (record.partition() + "/" + record.offset()).getBytes(StandardCharsets.US_ASCII);
            return new ProducerRecord<>(outputs, record.key(), place);
          });
    }
    watch(consumer);
    double fetched = recordsFetched(consumer);
    processor.closeDrainFirst();
    writeRows();
    say("report", report(cpuNs() - cpuBeforeNs, fetched));
  }

  private void watch(KafkaConsumer<byte[], byte[]> consumer) throws InterruptedException {
    long endsAt = Long.parseLong(job.get("ends_at"));
    long told = 0;
    boolean hasJoined = false;
    for (int looks = 1; !stop.await(10, TimeUnit.MILLISECONDS); looks++) {
      if (joined && !hasJoined) {
        hasJoined = true;
        say("joined", "");
      }
      long now = handled.sum();
      if (now != told && looks % 5 == 0) {
        told = now;
        say("handled", now + " " + (long) recordsFetched(consumer));
      }
      if (endsAt > 0 && now >= endsAt) {
        return;
      }
    }
  }

  /** Notes when transactions have been committed: a producer tells of it by its metrics alone. */
  private static void watchCommits(KafkaProducer<byte[], byte[]> producer) {
    double told = 0;
    while (true) {
      double now =
          producer.metrics().entrySet().stream()
              .filter(it -> it.getKey().name().equals("txn-commit-time-ns-total"))
              .mapToDouble(it -> ((Number) it.getValue().metricValue()).doubleValue())
              .sum();
      if (now != told) {
        told = now;
        Commits.lastNs = System.nanoTime();
        Commits.COUNT.incrementAndGet();
      }
      try {
        TimeUnit.MILLISECONDS.sleep(2);
      } catch (InterruptedException e) {
        return;
      }
    }
  }

  private Map<String, Object> producerSettings() {
    Map<String, Object> settings = new HashMap<>();
    settings.put("bootstrap.servers", job.get("bootstrap"));
    settings.put("transactional.id", job.get("group"));
    settings.put("key.serializer", ByteArraySerializer.class);
    settings.put("value.serializer", ByteArraySerializer.class);
    return settings;
  }

  private Map<String, Object> settings() {
    Map<String, Object> settings = new HashMap<>();
    settings.put("bootstrap.servers", job.get("bootstrap"));
    settings.put("group.id", job.get("group"));
    settings.put("auto.offset.reset", "earliest");
    settings.put("enable.auto.commit", "false");
    settings.put("session.timeout.ms", "6000");
    settings.put("key.deserializer", ByteArrayDeserializer.class);
    settings.put("value.deserializer", ByteArrayDeserializer.class);
    settings.put("interceptor.classes", Commits.class.getName());
    if (!job.get("instance").isEmpty()) {
      settings.put("group.instance.id", job.get("instance"));
    }
    return settings;
  }

  // ---- the handler ----

  private void handleOne(PollContext<byte[], byte[]> context) {
    ConsumerRecord<byte[], byte[]> record = context.getSingleConsumerRecord();
    long begunNs = begin();
    if (notes) {
      byte[] key = record.key() == null ? NO_KEY : record.key();
      work(Arrays.equals(key, SPECIAL) ? specialMs : workMs);
      note(new Row(record.partition(), record.offset(), begunNs, System.nanoTime(), key));
    }
    handled.increment();
  }

  private void handleBatch(PollContext<byte[], byte[]> context) {
    long begunNs = begin();
    if (notes) {
      context.forEach(
          record -> {
            byte[] key = record.key() == null ? NO_KEY : record.key();
            note(new Row(record.partition(), record.offset(), begunNs, System.nanoTime(), key));
          });
    }
    handled.add(context.size());
  }

  private long begin() {
    long nowNs = System.nanoTime();
    if (firstNs.get() == 0) {
      firstNs.compareAndSet(0, nowNs);
    }
    return nowNs;
  }

  private void work(double ms) {
    long ns = (long) (ms * 1e6);
    if (work.equals("burn")) {
      var threads = ManagementFactory.getThreadMXBean();
      long untilNs = threads.getCurrentThreadCpuTime() + ns;
      while (threads.getCurrentThreadCpuTime() < untilNs) {
        Thread.onSpinWait();
      }
    } else if (ns > 0) {
      try {
        TimeUnit.NANOSECONDS.sleep(ns);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw new IllegalStateException(e); // not done: it must not be committed
      }
    }
  }

  private void note(Row row) {
    if (!atOnce) {
      own.get().add(row);
      return;
    }
    try {
      journal.write(ByteBuffer.wrap(row.line()));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private Path journalPath() {
    return Path.of(job.get("journal"), ProcessHandle.current().pid() + ".rows");
  }

  private void writeRows() throws IOException {
    if (!notes || atOnce) {
      return;
    }
    try (OutputStream file = new BufferedOutputStream(Files.newOutputStream(journalPath()))) {
      for (List<Row> rows : kept) {
        for (Row row : rows) {
          file.write(row.line());
        }
      }
    }
  }

  // ---- what the parent hears ----

  private void obey() {
    try (var told = new BufferedReader(new InputStreamReader(System.in))) {
      for (String line = told.readLine(); line != null; line = told.readLine()) {
        (line.strip().equals("go") ? go : stop).countDown();
      }
    } catch (IOException e) {
      // as if the parent were gone
    }
    Runtime.getRuntime().halt(1);
  }

  private static synchronized void say(String word, String rest) {
    System.out.println((word + " " + rest).strip());
    System.out.flush();
  }

  private String report(long cpuNs, double fetched) throws IOException {
    return String.format(
        java.util.Locale.ROOT,
        "{\"handled\": %d, \"first_ns\": %d, \"committed_ns\": %d, \"cpu_s\": %.3f, "
            + "\"resident_mb\": %.1f, \"fetched\": %d, \"commits\": %d}",
        handled.sum(),
        firstNs.get(),
        Commits.lastNs,
        cpuNs / 1e9,
        residentMb(),
        (long) fetched,
        Commits.COUNT.get());
  }

  private static double recordsFetched(KafkaConsumer<byte[], byte[]> consumer) {
    return consumer.metrics().entrySet().stream()
        .filter(it -> it.getKey().name().equals("records-consumed-total"))
        .filter(it -> it.getKey().group().equals("consumer-fetch-manager-metrics"))
        .filter(it -> !it.getKey().tags().containsKey("topic")) // they are in the sum of all
        .mapToDouble(it -> (Double) it.getValue().metricValue())
        .sum();
  }

  private static long cpuNs() {
    var system = ManagementFactory.getOperatingSystemMXBean();
    return ((com.sun.management.OperatingSystemMXBean) system).getProcessCpuTime();
  }

  private static double residentMb() throws IOException {
    for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
      if (line.startsWith("VmHWM")) {
        return Long.parseLong(line.replaceAll("\\D", "")) / 1024.0;
      }
    }
    return 0;
  }
}
