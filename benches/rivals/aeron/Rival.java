/*
 * Aeron's part in `barewire bench --rivals`: one end of a ping-pong (`rtt`) or of a one-way
 * stream (`stream`) over IPC channels, both ends busy polling; or the media driver.
 *
 *     aeron client|server rtt|stream message|in-place SIZE TURNS NAME
 *     aeron driver NAME PROCESSORS
 *     aeron --version
 *
 * NAME keeps the files of a run apart from those of others. The client prints
 * `ns-per-operation X`. PROCESSORS is how many processors the driver has that neither end
 * uses.
 *
 * The sender offers a message from memory of its own, which Aeron copies into its log. The
 * receiver copies it out of the log (`message`), or reads its last byte where it lies
 * (`in-place`). The ends are those of Aeron's samples Ping and Pong: exclusive publications,
 * a BusySpinIdleStrategy, at most ten fragments a poll, and as much to warm up.
 */

import io.aeron.Aeron;
import io.aeron.AeronVersion;
import io.aeron.CommonContext;
import io.aeron.ExclusivePublication;
import io.aeron.Image;
import io.aeron.Subscription;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import io.aeron.logbuffer.FragmentHandler;
import java.util.Arrays;
import java.util.function.BooleanSupplier;
import org.agrona.BitUtil;
import org.agrona.BufferUtil;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.BusySpinIdleStrategy;
import org.agrona.concurrent.IdleStrategy;
import org.agrona.concurrent.NoOpIdleStrategy;
import org.agrona.concurrent.ShutdownSignalBarrier;
import org.agrona.concurrent.UnsafeBuffer;

/** One process of a run. */
public final class Rival
{
    private static final int STREAM_THERE = 1002;
    private static final int STREAM_BACK = 1003;
    private static final int FRAGMENTS_PER_POLL = 10;
    /** What Aeron's samples do before they measure. */
    private static final int WARM_UP = 100_000;
    /** What the last byte of every message is: whoever receives another one has a fault. */
    private static final byte LAST = 0x5A;
    /** Neither end waits longer for the other one to come or to go. */
    private static final long PEER_NS = 10_000_000_000L;

    private final boolean isClient;
    private final boolean isCopied;
    private final int turns;
    private final int warmUp;
    private final UnsafeBuffer message;
    private final UnsafeBuffer received;
    private final FragmentHandler handler = this::take;
    private final IdleStrategy idle = new BusySpinIdleStrategy();
    private ExclusivePublication out;
    private Image in;
    private long taken;
    /** Bytes of the next message that are here. */
    private int filled;

    private Rival(final boolean isClient, final boolean isCopied, final int size, final int turns)
    {
        this.isClient = isClient;
        this.isCopied = isCopied;
        this.turns = turns;
        // Long messages warm up as much with fewer of them: their time is that of the copies.
        this.warmUp = Math.max(WARM_UP / Math.max(size / 4096, 1), 20_000);
        message = memory(size);
        message.putByte(size - 1, LAST);
        received = memory(size);
    }

    /** Runs what the arguments say. */
    public static void main(final String[] args)
    {
        if (1 == args.length && "--version".equals(args[0]))
        {
            System.out.println("aeron " + AeronVersion.VERSION);
        }
        else if (3 == args.length && "driver".equals(args[0]))
        {
            drive(args[1], Integer.parseInt(args[2]));
        }
        else if (6 == args.length)
        {
            final Rival rival = new Rival(
                oneOf(args[0], "client", "server"),
                oneOf(args[2], "message", "in-place"),
                Integer.parseInt(args[3]),
                Integer.parseInt(args[4]));
            rival.run(oneOf(args[1], "stream", "rtt"), directory(args[5]));
        }
        else
        {
            System.err.println("arguments: client|server rtt|stream message|in-place SIZE TURNS NAME");
            System.exit(2);
        }
    }

    private static boolean oneOf(final String text, final String yes, final String no)
    {
        if (!text.equals(yes) && !text.equals(no))
        {
            throw new IllegalArgumentException(text + ": neither " + yes + " nor " + no);
        }
        return text.equals(yes);
    }

    private static String directory(final String name)
    {
        return "/dev/shm/" + name;
    }

    private static UnsafeBuffer memory(final int size)
    {
        return new UnsafeBuffer(BufferUtil.allocateDirectAligned(size, BitUtil.CACHE_LINE_LENGTH));
    }

    /**
     * The media driver. With three processors of its own it is Aeron's LowLatencyMediaDriver:
     * three threads that never wait. With fewer, one thread does the work of all three, and
     * never waits either. With none, that thread waits as Aeron's default says, at most for a
     * millisecond, since it takes its time from the two ends.
     */
    @SuppressWarnings("try")
    private static void drive(final String name, final int processors)
    {
        final MediaDriver.Context context = new MediaDriver.Context()
            .aeronDirectoryName(directory(name))
            .dirDeleteOnStart(true)
            .dirDeleteOnShutdown(true)
            .termBufferSparseFile(false)
            // As Aeron's own test of IPC throughput has it.
            .ipcMtuLength(8 * 1024);
        if (processors >= 3)
        {
            context.threadingMode(ThreadingMode.DEDICATED)
                .conductorIdleStrategy(BusySpinIdleStrategy.INSTANCE)
                .receiverIdleStrategy(NoOpIdleStrategy.INSTANCE)
                .senderIdleStrategy(NoOpIdleStrategy.INSTANCE);
        }
        else
        {
            context.threadingMode(ThreadingMode.SHARED);
            if (processors > 0)
            {
                context.sharedIdleStrategy(BusySpinIdleStrategy.INSTANCE);
            }
        }
        try (ShutdownSignalBarrier barrier = new ShutdownSignalBarrier();
            MediaDriver ignored = MediaDriver.launch(context.terminationHook(barrier::signalAll)))
        {
            barrier.await();
        }
    }

    private void run(final boolean isStream, final String directory)
    {
        final int outStream = isClient ? STREAM_THERE : STREAM_BACK;
        final int inStream = isClient ? STREAM_BACK : STREAM_THERE;
        try (Aeron aeron = Aeron.connect(new Aeron.Context().aeronDirectoryName(directory));
            Subscription subscription = aeron.addSubscription(CommonContext.IPC_CHANNEL, inStream);
            ExclusivePublication publication =
                aeron.addExclusivePublication(CommonContext.IPC_CHANNEL, outStream))
        {
            until(() -> subscription.isConnected() && publication.isConnected());
            in = subscription.imageAtIndex(0);
            out = publication;
            final double ns = isStream ? stream() : roundTrips();
            if (isClient)
            {
                System.out.println("ns-per-operation " + ns);
            }
            else
            {
                // What the client has not taken yet must not go with its publication.
                until(() -> !publication.isConnected());
            }
        }
    }

    private static void until(final BooleanSupplier holds)
    {
        final long begin = System.nanoTime();
        while (!holds.getAsBoolean())
        {
            if (System.nanoTime() - begin > PEER_NS)
            {
                throw new IllegalStateException("the other end is missing");
            }
            Thread.yield();
        }
    }

    /**
     * Takes a fragment: Aeron sends what is longer than its MTU in several. They come together
     * where they are copied to, so that no byte is copied twice.
     */
    private void take(
        final DirectBuffer buffer, final int offset, final int length, final Object header)
    {
        final int size = received.capacity();
        if (isCopied)
        {
            buffer.getBytes(offset, received, filled, length);
        }
        filled += length;
        if (filled < size)
        {
            return;
        }
        if (filled > size || LAST != buffer.getByte(offset + length - 1))
        {
            throw new IllegalStateException("a message is not what was sent");
        }
        filled = 0;
        taken++;
    }

    private void send(final int length)
    {
        idle.reset();
        while (out.offer(message, 0, length, null) < 0)
        {
            idle.idle();
        }
    }

    /** Polls until so many messages were taken, since the beginning. */
    private void receive(final long count)
    {
        idle.reset();
        while (taken < count)
        {
            idle.idle(in.poll(handler, FRAGMENTS_PER_POLL));
        }
    }

    /** The median of all round trips; nothing at the server. */
    private double roundTrips()
    {
        final long[] times = new long[turns];
        if (isClient)
        {
            pings(times, warmUp);
            pings(times, turns);
        }
        else
        {
            pongs(warmUp);
            pongs(turns);
        }
        Arrays.sort(times);
        return times[turns / 2];
    }

    private void pings(final long[] times, final int count)
    {
        long before = System.nanoTime();
        for (int i = 0; i < count; i++)
        {
            send(message.capacity());
            // Here the message is under way, so that looking at the clock costs nothing.
            final long now = System.nanoTime();
            times[i % times.length] = now - before;
            before = now;
            receive(taken + 1);
        }
    }

    private void pongs(final int count)
    {
        for (int i = 0; i < count; i++)
        {
            receive(taken + 1);
            send(message.capacity());
        }
    }

    /** The server receives and measures; then it sends back how long a message took. */
    private double stream()
    {
        if (isClient)
        {
            for (int i = 0; i < warmUp + turns; i++)
            {
                send(message.capacity());
            }
            return answer();
        }
        receive(warmUp);
        final long first = taken;
        final long begin = System.nanoTime();
        receive(warmUp + turns);
        final double ns = (double)(System.nanoTime() - begin) / (taken - first);
        final UnsafeBuffer answer = memory(Double.BYTES);
        answer.putDouble(0, ns);
        while (out.offer(answer) < 0)
        {
            idle.idle();
        }
        return ns;
    }

    private double answer()
    {
        final double[] ns = new double[1];
        while (0 == in.poll((buffer, offset, length, header) -> ns[0] = buffer.getDouble(offset), 1))
        {
            idle.idle();
        }
        return ns[0];
    }
}
