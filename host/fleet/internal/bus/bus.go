// Package bus connects a node to the records of its fleet, which are in NATS JetStream. [Connect] returns a [Bus].
package bus

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/mod/semver"
)

// Names of what a fleet keeps in JetStream.
const (
	NodesBucket    = "nodes"
	SessionsBucket = "sessions"
	QuotaBucket    = "quota"
	ConfigBucket   = "config"
	ClientsBucket  = "clients"
	JournalStream  = "JOURNAL"
	ObjectsStore   = "binaries"
	// JournalSubject is the prefix of the subjects of sessions in the journal.
	JournalSubject = "j."
)

// minServer is the oldest version of NATS that a fleet uses. Older versions can confirm two writes of one revision when
// they are clustered.
const minServer = "v2.12.0"

// TryTimeout is the time after which a request to JetStream is repeated. Without a leader, JetStream does not answer,
// and a leader is elected within seconds.
const TryTimeout = 700 * time.Millisecond

// tellAfter is the time after which Connect logs why it waits.
const tellAfter = 5 * time.Second

// Options configures a connection.
type Options struct {
	// Servers are URLs of NATS servers.
	Servers []string
	// Name is the name of the node.
	Name string
	// TLS authenticates the node at coordinators. It is nil for an external cluster whose URLs say what to use.
	TLS *tls.Config
	// Credentials is a file with credentials for an external cluster. CA, Certificate and Key are files in PEM for TLS
	// with it. Each can be empty.
	Credentials, CA, Certificate, Key string
	// Replicas is the number of copies of all records.
	Replicas int
	// JournalBytes limits the size of the journal. Zero means 1 GiB.
	JournalBytes int64
	Log          *slog.Logger
}

// Named returns the servers for messages, without passwords.
func (o *Options) Named() string {
	var out []string
	for _, s := range o.Servers {
		u, err := url.Parse(s)
		if err != nil {
			out = append(out, "(a URL that cannot be read)")
			continue
		}
		out = append(out, u.Redacted())
	}
	return strings.Join(out, ", ")
}

// Bus is the connection of a node. It is safe for concurrent use.
type Bus struct {
	Conn     *nats.Conn
	JS       jetstream.JetStream
	Nodes    jetstream.KeyValue
	Sessions jetstream.KeyValue
	Quota    jetstream.KeyValue
	Config   jetstream.KeyValue
	Clients  jetstream.KeyValue
	Journal  jetstream.Stream
	Objects  jetstream.ObjectStore

	identity string // of the records with which the node joined
	options  []nats.Option
}

// nats returns the options of a connection.
func (o Options) nats() []nats.Option {
	var refused atomic.Bool
	out := []nats.Option{
		nats.Name("toolhost " + o.Name), nats.MaxReconnects(-1), nats.ReconnectWait(200 * time.Millisecond),
		nats.ReconnectJitter(100*time.Millisecond, 100*time.Millisecond),
		nats.PingInterval(2 * time.Second), nats.MaxPingsOutstanding(2), nats.RetryOnFailedConnect(true),
		nats.Timeout(2 * time.Second),
		nats.IgnoreAuthErrorAbort(), // a coordinator that does not have the records yet refuses nodes
		nats.ReconnectHandler(func(*nats.Conn) { refused.Store(false) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrAuthorization) {
				o.Log.Debug("a coordinator does not have the records yet", "why", err)
			} else if !isRefused(err) || !refused.Swap(true) { // it tries several times a second
				o.Log.Warn("the connection to the coordinators has a problem", "why", explain(err))
			}
		}),
	}
	if o.TLS != nil {
		// The record of the coordinators names all servers. A coordinator that is about to leave must not add itself
		// again.
		out = append(out, nats.Secure(o.TLS), nats.IgnoreDiscoveredServers())
	}
	if o.Credentials != "" {
		out = append(out, nats.UserCredentials(o.Credentials))
	}
	if o.CA != "" {
		out = append(out, nats.RootCAs(o.CA))
	}
	if o.Certificate != "" {
		out = append(out, nats.ClientCert(o.Certificate, o.Key))
	}
	return out
}

// Connect connects to the servers and creates what is missing. It tries again until ctx ends.
func Connect(ctx context.Context, opts Options) (*Bus, error) {
	o := opts.nats()
	nc, err := nats.Connect(strings.Join(opts.Servers, ","), o...)
	if err != nil {
		return nil, fmt.Errorf("the coordinators %s: %w", opts.Named(), err)
	}
	b := &Bus{Conn: nc, options: o}
	if b.JS, err = jetstream.New(nc, jetstream.WithDefaultTimeout(TryTimeout)); err != nil {
		nc.Close()
		return nil, err
	}
	for began, told := time.Now(), false; ; {
		err := b.open(ctx, opts)
		if err == nil {
			return b, nil
		}
		if isRefused(err) && time.Since(began) > tellAfter {
			nc.Close()
			return nil, explain(err)
		}
		if !told && time.Since(began) > tellAfter {
			opts.Log.Warn("the coordinators cannot be used yet", "why", err)
			told = true
		}
		select {
		case <-ctx.Done():
			nc.Close()
			return nil, fmt.Errorf("the coordinators at %s do not answer: %w. Check that they run, and that this node reaches them", opts.Named(), err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// explain adds the probable reason to an error of TLS, because the other side of a connection does not send the reason.
func explain(err error) error {
	if !isRefused(err) {
		return err
	}
	return fmt.Errorf("%w: the coordinators refuse this node. If its certificate was revoked, stop the node, remove the directory fleet in its state directory, and join with a new token", err)
}

// isRefused reports whether the server refused the certificate of the node.
func isRefused(err error) bool {
	return err != nil && strings.Contains(err.Error(), "tls: bad certificate")
}

// open checks the version of the server, and opens or creates the buckets and the journal.
func (b *Bus) open(ctx context.Context, opts Options) (err error) {
	if !b.Conn.IsConnected() {
		if err := b.Conn.LastError(); err != nil {
			return err
		}
		return nats.ErrConnectionClosed
	}
	if v := "v" + b.Conn.ConnectedServerVersion(); semver.IsValid(v) && semver.Compare(v, minServer) < 0 {
		return fmt.Errorf("the NATS server has version %s, and a fleet needs %s or later: upgrade the server", v, minServer)
	}
	try := func(f func(ctx context.Context) error) {
		if err != nil {
			return
		}
		c, cancel := context.WithTimeout(ctx, 3*TryTimeout)
		defer cancel()
		err = f(c)
	}
	bucket := func(to *jetstream.KeyValue, cfg jetstream.KeyValueConfig) {
		cfg.Replicas, cfg.Storage = opts.Replicas, jetstream.FileStorage
		try(func(c context.Context) (err error) {
			if *to, err = b.JS.KeyValue(c, cfg.Bucket); errors.Is(err, jetstream.ErrBucketNotFound) {
				*to, err = b.JS.CreateKeyValue(c, cfg)
			}
			return err
		})
	}
	bucket(&b.Nodes, jetstream.KeyValueConfig{Bucket: NodesBucket})
	bucket(&b.Sessions, jetstream.KeyValueConfig{Bucket: SessionsBucket})
	bucket(&b.Quota, jetstream.KeyValueConfig{Bucket: QuotaBucket})
	bucket(&b.Config, jetstream.KeyValueConfig{Bucket: ConfigBucket, History: 10})
	bucket(&b.Clients, jetstream.KeyValueConfig{Bucket: ClientsBucket, TTL: clientLife})
	try(func(c context.Context) (err error) {
		if b.Journal, err = b.JS.Stream(c, JournalStream); errors.Is(err, jetstream.ErrStreamNotFound) {
			b.Journal, err = b.JS.CreateStream(c, jetstream.StreamConfig{
				Name: JournalStream, Subjects: []string{JournalSubject + "*"}, Replicas: opts.Replicas,
				Storage:  jetstream.FileStorage,
				Metadata: map[string]string{identityKey: rand.Text()}, MaxMsgsPerSubject: journalRecords,
				MaxBytes: cmp.Or(opts.JournalBytes, 1<<30), Discard: jetstream.DiscardNew, DenyDelete: true,
				AllowDirect: false,
			})
		}
		if err == nil {
			b.identity = Identity(b.Journal.CachedInfo())
		}
		return err
	})
	try(func(c context.Context) (err error) {
		if b.Objects, err = b.JS.ObjectStore(c, ObjectsStore); errors.Is(err, jetstream.ErrBucketNotFound) {
			b.Objects, err = b.JS.CreateObjectStore(c, jetstream.ObjectStoreConfig{
				Bucket: ObjectsStore, Replicas: opts.Replicas,
			})
		}
		return err
	})
	return err
}

// clientLife is the time after which the session of an MCP client is forgotten.
const clientLife = 7 * 24 * time.Hour

// journalRecords is the number of records that the journal keeps of each session. A snapshot is written far more often.
const journalRecords = 512

// ErrRecordsLost means that the records are not those with which the node joined.
var ErrRecordsLost = errors.New("the coordinators have lost the records of the fleet. Restore their stores from a backup, and start them again. If there is none, restart each node: all sessions begin anew then, and results of earlier calls are forgotten")

// Whole returns [ErrRecordsLost] if the servers have other records than those with which the node joined.
func (b *Bus) Whole(ctx context.Context) error {
	c, cancel := context.WithTimeout(ctx, 2*TryTimeout)
	defer cancel()
	s, err := b.JS.Stream(c, JournalStream)
	if errors.Is(err, jetstream.ErrStreamNotFound) || err == nil && Identity(s.CachedInfo()) != b.identity {
		return ErrRecordsLost
	}
	return err
}

// identityKey is the key of the metadata of the journal that identifies the records of a fleet.
const identityKey = "toolhost_records"

// Identity returns what identifies the records of a fleet. For older records without an identity, this is the time at
// which the journal was created.
func Identity(journal *jetstream.StreamInfo) string {
	if id := journal.Config.Metadata[identityKey]; id != "" {
		return id
	}
	return journal.Created.UTC().Format(time.RFC3339Nano)
}

// Identify adds to the records an identity that stays when the coordinators change.
func (b *Bus) Identify(ctx context.Context) error {
	s, err := b.JS.Stream(ctx, JournalStream)
	if err != nil {
		return err
	}
	cfg := s.CachedInfo().Config
	if cfg.Metadata[identityKey] != "" {
		return nil
	}
	cfg.Metadata = maps.Clone(cfg.Metadata)
	if cfg.Metadata == nil {
		cfg.Metadata = make(map[string]string)
	}
	cfg.Metadata[identityKey] = Identity(s.CachedInfo())
	_, err = b.JS.UpdateStream(ctx, cfg)
	return err
}

// Follow replaces the servers of the connection. If it is connected to another one, it connects again at once.
func (b *Bus) Follow(addresses []string) error {
	var urls []string
	for _, a := range addresses {
		urls = append(urls, "tls://"+a)
	}
	var known []string
	for _, s := range b.Conn.ServerPool() {
		known = append(known, s.URL.String())
	}
	slices.Sort(urls)
	slices.Sort(known)
	if slices.Equal(urls, known) {
		return nil
	}
	at := b.Conn.ConnectedUrl()
	if err := b.Conn.SetServerPool(urls); err != nil || at == "" || slices.Contains(urls, at) {
		return err
	}
	return b.Conn.ForceReconnect()
}

// Close closes the connection.
func (b *Bus) Close() { b.Conn.Close() }

// IsConflict reports whether a write failed because the record had changed. JetStream has two codes for that.
func IsConflict(err error) bool {
	var a *jetstream.APIError
	return errors.As(err, &a) && (a.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		a.ErrorCode == wrongLastSequenceConstant) || errors.Is(err, jetstream.ErrKeyExists)
}

const wrongLastSequenceConstant = 10164

// IsUnanswered reports whether a request failed because no server answered it, for example while a leader is elected.
func IsUnanswered(err error) bool {
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse) ||
		errors.Is(err, nats.ErrTimeout) || errors.Is(err, context.DeadlineExceeded)
}

// ElectionTime is the longest time for which servers elect a leader.
const ElectionTime = 9 * time.Second

// UntilAnswered repeats a step while no server answers it, for at most [ElectionTime].
func UntilAnswered(ctx context.Context, step func(context.Context) error) error {
	for end := time.Now().Add(ElectionTime); ; {
		err := step(ctx)
		if err == nil || !IsUnanswered(err) || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// IsFull reports whether a write failed because the store is full.
func IsFull(err error) bool {
	var a *jetstream.APIError
	if !errors.As(err, &a) {
		return false
	}
	switch a.ErrorCode {
	case 10023, 10047, 10077, 10122: // insufficient resources, storage resources exceeded, maximum bytes, maximum bytes of the account
		return true
	}
	return strings.Contains(a.Description, "maximum bytes") || strings.Contains(a.Description, "no space left")
}
