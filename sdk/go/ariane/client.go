package ariane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/keepalive"
)

// Version is that of this module.
const Version = "0.1.0"

// Options of a client. The zero value is good for a cluster that the environment tells all of.
type Options struct {
	// TLS secures connections. Nil: as ARIANE_TLS_CA, ARIANE_TLS_CERTIFICATE and ARIANE_TLS_KEY say. Without
	// a CA they are plain.
	TLS *TLS
	// CredentialsFile has the key, of "ariane credential create", by which the client proves who it is; it is
	// read for each login. Empty, and no Token: what ARIANE_CREDENTIALS names.
	CredentialsFile string
	// Token gives a token of an OpenID provider for each login, in place of a key.
	Token func(context.Context) (string, error)
	// TryTimeout bounds one try of a call; the context bounds all of them. 0: 3 s.
	TryTimeout time.Duration
	// CallTimeout bounds a call whose context has no deadline. 0: 30 s.
	CallTimeout time.Duration
	// ProducerGroup is told to operators who ask who sends. Optional; printable, without spaces.
	ProducerGroup string
	// Logger hears what nobody else could be told. Nil: slog.Default().
	Logger *slog.Logger
	// MaxMessageBytes bounds what one answer may have. 0: 64 MiB.
	MaxMessageBytes int
	// Compression is how bodies of 4 KiB and more are compressed that become smaller by it. Every client
	// decompresses what it receives. Zero: they are not.
	Compression Compression
	// Tracer makes spans of sends and of calls of listeners. Nil: none. Package ariane.mq/go/arianeotel has one for
	// OpenTelemetry.
	Tracer Tracer
}

// Client is one program's view of a cluster. Close it at the end.
type Client struct {
	sources *sources // Of addresses of name servers.
	options Options
	id      string
	inbox   *inbox // Of replies.

	mu          sync.Mutex
	connections map[place]*grpc.ClientConn
	known       map[question]answer
	clusters    map[string]string // Of each broker, as routes name it.
	asking      singleflight.Group
	turn        atomic.Uint64 // Which queue is next.
	nameServer  int           // Which is asked next: another one when it fails.
	closed      bool
}

// connectPause is the longest between two attempts to connect: whoever comes back is found at once.
const connectPause = 2 * time.Second

// addressScheme has gRPC take an address as it is.
const addressScheme = "passthrough:///"

// NewClient makes a client of the cluster that these name servers, "host:port", or sources of them that are read again
// ("dns:host:port", "file:path", a URL), know; without any, those of
// ARIANE_NAME_SERVERS, separated by commas. It connects when it is first used.
func NewClient(nameServers []string, options Options) (*Client, error) {
	if len(nameServers) == 0 {
		nameServers = strings.FieldsFunc(os.Getenv("ARIANE_NAME_SERVERS"), func(each rune) bool {
			return strings.ContainsRune(",; ", each)
		})
	}
	if len(nameServers) == 0 {
		return nil, errors.New("ariane: at least one name server is needed, as in 127.0.0.1:9876: pass it, or set ARIANE_NAME_SERVERS")
	}
	for _, address := range nameServers {
		if !isSource(address) && !isAddress(address) {
			return nil, fmt.Errorf("ariane: name server %q: host:port, dns:host:port, file:path or a URL is expected", address)
		}
	}
	if strings.ContainsFunc(options.ProducerGroup, func(each rune) bool { return each <= ' ' || each > '~' }) {
		return nil, fmt.Errorf("ariane: producer group %q is not printable, or has a space", options.ProducerGroup)
	}
	if options.TryTimeout < 0 || options.CallTimeout < 0 {
		return nil, fmt.Errorf("ariane: TryTimeout is %v and CallTimeout is %v: none may be negative", options.TryTimeout, options.CallTimeout)
	}
	options.TryTimeout = cmp.Or(options.TryTimeout, 3*time.Second)
	options.CallTimeout = cmp.Or(options.CallTimeout, 30*time.Second)
	options.MaxMessageBytes = cmp.Or(options.MaxMessageBytes, 64<<20)
	options.Logger = cmp.Or(options.Logger, slog.Default())
	if err := options.withEnvironment(); err != nil {
		return nil, err
	}
	if _, known := compressors[options.Compression]; !known && options.Compression != Uncompressed {
		return nil, fmt.Errorf("ariane: compression %v is not known", options.Compression)
	}
	host, _ := os.Hostname()
	made := &Client{
		sources:     &sources{texts: slices.Clone(nameServers), found: map[string][]string{}},
		options:     options,
		id:          fmt.Sprintf("%s@%d@%016x", cmp.Or(host, "unknown"), os.Getpid(), rand.Uint64()),
		connections: map[place]*grpc.ClientConn{},
		known:       map[question]answer{},
		clusters:    map[string]string{},
		nameServer:  rand.IntN(len(nameServers)),
	}
	made.inbox = newInbox(made)
	made.turn.Store(rand.Uint64N(1 << 16))
	return made, nil
}

// ID is the client's id, unique among those that live.
func (c *Client) ID() string { return c.id }

// Close ends all connections, and with them every call in flight.
func (c *Client) Close() error {
	c.inbox.end()
	defer c.inbox.running.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	var failures []error
	for _, connection := range c.connections {
		failures = append(failures, connection.Close())
	}
	c.connections = map[place]*grpc.ClientConn{}
	return errors.Join(failures...)
}

// userAgent says who this is, for operators who ask who sends.
func (c *Client) userAgent() string {
	agent := "ariane-go/" + Version + " client/" + c.id
	if c.options.ProducerGroup != "" {
		agent += " producer-group/" + c.options.ProducerGroup
	}
	return agent
}

// Connection is the one to a process of the cluster, for calls of generated stubs that this package
// does not wrap.
func (c *Client) Connection(address string) (*grpc.ClientConn, error) {
	return c.connect(place{address: address})
}

// broker is the connection to the broker that a route names: with TLS only that one is taken.
func (c *Client) broker(address, name string) (*grpc.ClientConn, error) {
	return c.connect(place{address, "broker", name})
}

func (c *Client) connect(at place) (*grpc.ClientConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, closedError()
	}
	if connection := c.connections[at]; connection != nil {
		return connection, nil
	}
	guard, err := newGuard(at, &c.options)
	if err != nil {
		return nil, err
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(guard),
		grpc.WithUserAgent(c.userAgent()),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: time.Minute, Timeout: 10 * time.Second}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: connectPause / 8, Multiplier: 2, Jitter: 0.2, MaxDelay: connectPause},
			MinConnectTimeout: c.options.TryTimeout,
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(c.options.MaxMessageBytes)),
		// Repeats are ours: only here it is known which are safe.
		grpc.WithDisableRetry(),
		// A proxy of the environment is for pages of the internet, and cannot reach the cluster.
		grpc.WithNoProxy(),
	}
	if at.kind == "broker" {
		options = append(options, grpc.WithUnaryInterceptor(c.meanUnary(at.name)), grpc.WithStreamInterceptor(c.meanStream(at.name)))
	}
	if c.options.logsIn() {
		options = append(options, grpc.WithPerRPCCredentials(guard))
	}
	connection, err := grpc.NewClient(addressScheme+at.address, options...)
	if err != nil {
		return nil, err
	}
	guard.connection = connection
	c.connections[at] = connection
	return connection, nil
}

// bounded gives a context without a deadline that of the options.
func (c *Client) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.options.CallTimeout)
}

// within makes one try of a call.
func within[A any](ctx context.Context, most time.Duration, call func(context.Context) (A, error)) (A, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	return call(ctx)
}

// pause waits before a repeat, longer each time and never for as long as others do; false, which the failure
// tells from then on, when the context ends before.
func pause(ctx context.Context, repeats int, failure *Error) bool {
	most := min(2*time.Second, 50*time.Millisecond<<min(repeats, 6))
	wait := max(failure.RetryAfter, most/2+rand.N(most/2))
	if deadline, has := ctx.Deadline(); has && time.Until(deadline) < wait {
		failure.ended = context.DeadlineExceeded
		return false
	}
	select {
	case <-time.After(wait):
		return true
	case <-ctx.Done():
		failure.ended = ctx.Err()
		return false
	}
}
