package ariane

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	commonv1 "ariane.mq/go/arianepb/common/v1"
	namesrvv1 "ariane.mq/go/arianepb/namesrv/v1"
)

// TLS names files, PEM, that are read again for each connection: nothing is restarted when they change.
type TLS struct {
	// CA is the authority of the processes of the cluster, members.pem of "ariane tls".
	CA string
	// Certificate says who the client is, and Key is its private key. Empty where credentials do.
	Certificate, Key string
	// MinVersion is the oldest version that is spoken, as of crypto/tls. 0: TLS 1.3.
	MinVersion uint16
}

// loginPause is how long after a renewal that failed it is tried again.
const loginPause = 5 * time.Second

var (
	brokerKinds    = []string{"broker", "replica"}
	credentialLine = regexp.MustCompile(`(?m)^credential: ([A-Za-z0-9_-]{1,64})\r?$`)
	memberName     = regexp.MustCompile(`^ariane://[^/\s]+/([^/\s]+)/([^/\s]+)$`)
	// meantKey is where a call says which process it is for: an address is used again, and who is there now
	// refuses what is meant for another.
	meantKey     = "x-ariane-meant-for"
	loginMethods = "/" + commonv1.LoginService_ServiceDesc.ServiceName + "/"
)

// place is a process that must be at an address.
type place struct {
	address string
	kind    string // "broker", "namesrv"; empty for any.
	name    string // Empty for any.
}

// check says what is wrong with who is there: routes may lie, certificates do not.
func (p place) check(certificate *x509.Certificate) error {
	if len(certificate.URIs) != 1 {
		return errors.New("the certificate of the server names no process of a cluster")
	}
	found := memberName.FindStringSubmatch(certificate.URIs[0].String())
	switch {
	case found == nil:
		return errors.New("the certificate of the server names no process of a cluster")
	case p.kind == "broker" && !slices.Contains(brokerKinds, found[1]),
		p.kind != "" && p.kind != "broker" && p.kind != found[1],
		p.name != "" && p.name != found[2]:
		return fmt.Errorf("the certificate of the server is of %s %s, not of %s %s", found[1], found[2], p.kind, p.name)
	}
	return nil
}

// withEnvironment fills in what the program does not say, and checks that the files can be read.
func (o *Options) withEnvironment() error {
	if o.TLS == nil {
		o.TLS = &TLS{
			CA:          os.Getenv("ARIANE_TLS_CA"),
			Certificate: os.Getenv("ARIANE_TLS_CERTIFICATE"),
			Key:         os.Getenv("ARIANE_TLS_KEY"),
		}
	}
	if o.CredentialsFile == "" && o.Token == nil {
		o.CredentialsFile = os.Getenv("ARIANE_CREDENTIALS")
	}
	if o.TLS.CA == "" && (o.TLS.Certificate != "" || o.TLS.Key != "") {
		return errors.New("ariane: tls: a certificate needs the authority of the cluster, too: ca, or ARIANE_TLS_CA")
	}
	if (o.TLS.Certificate == "") != (o.TLS.Key == "") {
		return errors.New("ariane: tls: a certificate and its key belong together")
	}
	if o.TLS.CA != "" {
		if _, err := o.TLS.config(place{}); err != nil {
			return fmt.Errorf("ariane: tls: %w", err)
		}
	}
	if o.CredentialsFile != "" {
		if _, _, err := readKey(o.CredentialsFile); err != nil {
			return fmt.Errorf("ariane: credentials: %w", err)
		}
	}
	return nil
}

func (o *Options) logsIn() bool { return o.CredentialsFile != "" || o.Token != nil }

// config reads the files.
func (t *TLS) config(expected place) (*tls.Config, error) {
	text, err := os.ReadFile(t.CA)
	if err != nil {
		return nil, err
	}
	made := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: max(t.MinVersion, tls.VersionTLS12)}
	if t.MinVersion == 0 {
		made.MinVersion = tls.VersionTLS13
	}
	if !made.RootCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: no certificate", t.CA)
	}
	if t.Certificate != "" || t.Key != "" {
		own, err := tls.LoadX509KeyPair(t.Certificate, t.Key)
		if err != nil {
			return nil, err
		}
		made.Certificates = []tls.Certificate{own}
	}
	made.VerifyConnection = func(state tls.ConnectionState) error { return expected.check(state.PeerCertificates[0]) }
	return made, nil
}

// readKey reads a file of "ariane credential create". Errors say nothing of what is in it.
func readKey(path string) (id string, key ed25519.PrivateKey, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", nil, err
	}
	found := credentialLine.FindSubmatch(text)
	if block, _ := pem.Decode(text); block != nil && found != nil {
		parsed, _ := x509.ParsePKCS8PrivateKey(block.Bytes)
		if key, is := parsed.(ed25519.PrivateKey); is {
			return string(found[1]), key, nil
		}
	}
	return "", nil, fmt.Errorf("%s: not a file that ariane credential create has made", path)
}

// guard secures the connections to one place: TLS, who must be there, and the login.
type guard struct {
	credentials.TransportCredentials
	place      place
	options    *Options
	connection *grpc.ClientConn
}

// shown is what one connection knows of its server, and its login.
type shown struct {
	credentials.CommonAuthInfo
	certificate *x509.Certificate // Nil in plain text.
	turn        chan struct{}     // Who has put something in logs in.
	renewAt     atomic.Int64      // When a call renews the login, in ns since 1970; 0 without a login.
	ends        time.Time         // When the login ends; guarded by turn.
}

// AuthType makes it an AuthInfo.
func (*shown) AuthType() string { return "ariane" }

func newGuard(at place, options *Options) (*guard, error) {
	made := &guard{TransportCredentials: insecure.NewCredentials(), place: at, options: options}
	if options.TLS.CA != "" {
		made.TransportCredentials = credentials.NewTLS(nil)
	} else if options.logsIn() && !isLoopback(at.address) {
		return nil, &Error{
			Code:    codes.FailedPrecondition,
			Message: "credentials are not sent in plain text, and " + at.address + " is another machine: set tls, or ARIANE_TLS_CA",
		}
	}
	return made, nil
}

// ClientHandshake secures a new connection.
func (g *guard) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	own := &shown{turn: make(chan struct{}, 1)}
	if g.options.TLS.CA == "" {
		own.SecurityLevel = credentials.NoSecurity
		return raw, own, nil
	}
	config, err := g.options.TLS.config(g.place)
	if err != nil {
		return nil, nil, err
	}
	conn, info, err := credentials.NewTLS(config).ClientHandshake(ctx, authority, raw)
	if err != nil {
		return nil, nil, err
	}
	own.SecurityLevel = credentials.PrivacyAndIntegrity
	own.certificate = info.(credentials.TLSInfo).State.PeerCertificates[0]
	return conn, own, nil
}

// Clone makes it TransportCredentials.
func (g *guard) Clone() credentials.TransportCredentials { return g }

// RequireTransportSecurity is false because another machine is refused before.
func (g *guard) RequireTransportSecurity() bool { return false }

// GetRequestMetadata lets a call go when its connection has logged in.
func (g *guard) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	about, _ := credentials.RequestInfoFromContext(ctx)
	own, known := about.AuthInfo.(*shown)
	if !known || strings.HasPrefix(about.Method, loginMethods) || time.Now().UnixNano() < own.renewAt.Load() {
		return nil, nil
	}
	select {
	case own.turn <- struct{}{}:
		defer func() { <-own.turn }()
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	if time.Now().UnixNano() < own.renewAt.Load() {
		return nil, nil // The one before has.
	}
	life, err := g.logIn(ctx, own)
	now := time.Now()
	if err == nil {
		own.ends = now.Add(life)
		own.renewAt.Store(now.Add(life / 2).UnixNano())
		return nil, nil
	}
	if now.Before(own.ends) {
		g.options.Logger.Warn("the login was not renewed", "peer", g.place.address, "error", err)
		own.renewAt.Store(now.Add(loginPause).UnixNano())
		return nil, nil
	}
	return nil, err
}

// logIn proves who the client is on one connection; returns for how long that holds.
func (g *guard) logIn(ctx context.Context, own *shown) (time.Duration, error) {
	stub := commonv1.NewLoginServiceClient(g.connection)
	request := &commonv1.FinishLoginRequest{}
	var at peer.Peer
	if g.options.Token != nil {
		token, err := g.options.Token(ctx)
		if err != nil {
			return 0, status.Error(codes.Unauthenticated, "the function of the token failed: "+err.Error())
		}
		request.Proof = &commonv1.FinishLoginRequest_BearerToken{BearerToken: token}
	} else {
		begun, err := stub.BeginLogin(ctx, &commonv1.BeginLoginRequest{})
		if err != nil {
			return 0, err
		}
		proof, err := own.proof(g.options.CredentialsFile, begun.ServerNonce)
		if err != nil {
			return 0, status.Error(codes.Unauthenticated, err.Error())
		}
		request.Proof = &commonv1.FinishLoginRequest_Key{Key: proof}
	}
	answer, err := stub.FinishLogin(ctx, request, grpc.Peer(&at))
	if at.AuthInfo != nil && at.AuthInfo != credentials.AuthInfo(own) {
		return 0, status.Error(codes.Unavailable, "the connection has ended before its login")
	}
	return answer.GetLifetime().AsDuration(), err
}

// proof signs both nonces, the server's certificate and its name.
func (s *shown) proof(path string, serverNonce []byte) (*commonv1.KeyProof, error) {
	id, key, err := readKey(path)
	if err != nil {
		return nil, err
	}
	var fingerprint [sha256.Size]byte
	name := ""
	if s.certificate != nil {
		fingerprint = sha256.Sum256(s.certificate.Raw)
		name = s.certificate.URIs[0].String()
	}
	nonce := make([]byte, 32)
	_, _ = rand.Read(nonce) // It never fails.
	text := slices.Concat([]byte("ariane-login-v1\x00"), serverNonce, nonce, fingerprint[:],
		[]byte{byte(len(name))}, []byte(name), []byte(id))
	return &commonv1.KeyProof{CredentialId: id, ClientNonce: nonce, Signature: ed25519.Sign(key, text)}, nil
}

// isLoopback says whether an address is of this machine, by its text alone.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && (host == "localhost" || net.ParseIP(host).IsLoopback())
}

// noteClusters remembers of which cluster the brokers of a route are.
func (c *Client) noteClusters(route *namesrvv1.Route) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, broker := range route.GetBrokers() {
		c.clusters[broker.BrokerName] = broker.ClusterName
	}
}

// meant says with a call which broker it is for.
func (c *Client) meant(ctx context.Context, broker string) context.Context {
	c.mu.Lock()
	cluster := c.clusters[broker]
	c.mu.Unlock()
	if cluster == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, meantKey, cluster+"/"+broker)
}

func (c *Client) meanUnary(broker string) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, request, answer any, on *grpc.ClientConn, call grpc.UnaryInvoker, options ...grpc.CallOption) error {
		return call(c.meant(ctx, broker), method, request, answer, on, options...)
	}
}

func (c *Client) meanStream(broker string) grpc.StreamClientInterceptor {
	return func(ctx context.Context, about *grpc.StreamDesc, on *grpc.ClientConn, method string, begin grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
		return begin(c.meant(ctx, broker), about, on, method, options...)
	}
}
