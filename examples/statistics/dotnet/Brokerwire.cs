// Sends librdkafka's statistics to brokerwire. Send never waits and never throws: while brokerwire is
// away or slow, documents are dropped.
//
//   using var brokerwire = new Brokerwire("/run/brokerwire/statistics.sock");
//   var config = new ProducerConfig { StatisticsIntervalMs = 5000, /* ... */ };
//   using var producer = new ProducerBuilder<Null, string>(config)
//       .SetStatisticsHandler((_, statistics) => brokerwire.Send(statistics))
//       .Build();
//
// A ConsumerBuilder has the same SetStatisticsHandler.

using System;
using System.Net.Sockets;
using System.Text;
using System.Threading.Channels;
using System.Threading.Tasks;

public sealed class Brokerwire : IDisposable
{
    private readonly Channel<string> documents = Channel.CreateBounded<string>(
        new BoundedChannelOptions(16) { FullMode = BoundedChannelFullMode.DropOldest });

    public Brokerwire(string path) => _ = Task.Run(() => RunAsync(path));

    public void Send(string statistics) => documents.Writer.TryWrite(statistics);

    public void Dispose() => documents.Writer.TryComplete();

    private async Task RunAsync(string path)
    {
        Socket? socket = null;
        await foreach (var document in documents.Reader.ReadAllAsync())
        {
            try
            {
                if (socket is null)
                {
                    socket = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified)
                    {
                        SendTimeout = 1000,
                    };
                    socket.Connect(new UnixDomainSocketEndPoint(path));
                }
                // Send returns when all of it is written: the socket blocks, up to the timeout.
                socket.Send(Encoding.UTF8.GetBytes(document + "\n"));
            }
            catch (SocketException)
            {
                // Half a document ends with its connection.
                socket?.Dispose();
                socket = null;
            }
        }
        socket?.Dispose();
    }
}
