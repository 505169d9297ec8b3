package trace

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Config configures a [Tracer].
type Config struct {
	// URL to which they are posted, as OTLP over HTTP in JSON.
	URL     string
	Headers map[string]string
	// Service is the name of the service in the traces.
	Service string
	Version string
	// Sample is the share of traces that are begun here and recorded, from 0 to 1. One that comes
	// from outside is recorded if that says so.
	Sample float64
}

const (
	// maxQueued bounds the spans that wait; what comes after is dropped and counted.
	maxQueued = 4096
	maxPost   = 512
	// delay is how long spans wait for others.
	delay = time.Second
	// patience is how long a post may take, and the last one at the end.
	patience, lastPatience = 10 * time.Second, 2 * time.Second
)

// Tracer records spans. The nil Tracer records none, and passes contexts on. It is safe for
// concurrent use.
type Tracer struct {
	cfg    Config
	log    *slog.Logger
	client http.Client

	mu      sync.Mutex
	queue   []spanJSON
	closed  bool
	running bool
	wake    chan struct{} // has an element when much waits, or the tracer is closed
	done    sync.WaitGroup
	dropped atomic.Uint64
	warned  atomic.Bool
}

// New makes a tracer. Nothing is started before the first span has ended.
func New(cfg Config, log *slog.Logger) *Tracer {
	return &Tracer{cfg: cfg, log: log, wake: make(chan struct{}, 1)}
}

// Span is a part of a call. The methods of a nil Span do nothing.
type Span struct {
	tracer *Tracer
	at     Context
	json   spanJSON
}

// Start begins a span below a context. It is nil when it is not recorded; at is where what
// happens within it is in any case.
func (t *Tracer) Start(parent Context, name string) (s *Span, at Context) {
	if t == nil {
		return nil, parent
	}
	at = parent.child()
	if !parent.Valid() {
		at.Sampled = t.cfg.Sample >= 1 || float64(binary.BigEndian.Uint64(at.Trace[8:])>>1)/math.MaxInt64 < t.cfg.Sample
	}
	if !at.Sampled {
		return nil, at
	}
	s = &Span{tracer: t, at: at, json: spanJSON{Trace: hex.EncodeToString(at.Trace[:]), Span: hex.EncodeToString(at.Span[:]), Name: name, Kind: kindInternal, Start: now()}}
	if parent.Valid() {
		s.json.Parent = hex.EncodeToString(parent.Span[:])
	}
	return s, at
}

// The kinds of spans.
const (
	kindInternal = 1
	kindServer   = 2
	kindClient   = 3
)

// Served marks the span as what somebody asked for.
func (s *Span) Served() {
	if s != nil {
		s.json.Kind = kindServer
	}
}

// Asked marks the span as what another process is asked for.
func (s *Span) Asked() {
	if s != nil {
		s.json.Kind = kindClient
	}
}

// Rename changes the name of the span.
func (s *Span) Rename(name string) {
	if s != nil {
		s.json.Name = name
	}
}

// Set sets an attribute of the span: a string, a number or a bool.
func (s *Span) Set(key string, value any) {
	if s == nil {
		return
	}
	var v valueJSON
	switch value := value.(type) {
	case string:
		if value == "" {
			return
		}
		v.String = &value
	case int:
		text := strconv.Itoa(value)
		v.Int = &text
	case bool:
		v.Bool = &value
	}
	s.json.Attributes = append(s.json.Attributes, attributeJSON{key, v})
}

// Fail marks the span as failed, with the reason.
func (s *Span) Fail(why string) {
	if s != nil {
		s.json.Status = &statusJSON{Code: 2, Message: why}
	}
}

// End ends the span. It must be called once.
func (s *Span) End() {
	if s != nil {
		s.json.End = now()
		s.tracer.add(s.json)
	}
}

func now() string { return strconv.FormatInt(time.Now().UnixNano(), 10) }

func (t *Tracer) add(s spanJSON) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || len(t.queue) >= maxQueued {
		t.dropped.Add(1)
		return
	}
	t.queue = append(t.queue, s)
	if !t.running {
		t.running = true
		t.done.Go(t.send)
	}
	if len(t.queue) >= maxPost {
		t.poke()
	}
}

func (t *Tracer) poke() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// send posts what there is until the tracer is closed.
func (t *Tracer) send() {
	for {
		select {
		case <-t.wake:
		case <-time.After(delay):
		}
		t.mu.Lock()
		n := min(len(t.queue), maxPost)
		spans := t.queue[:n:n]
		t.queue = t.queue[n:]
		last := t.closed && len(t.queue) == 0
		closed := t.closed
		if n == 0 && !last { // until there is something again
			t.running = false
			t.mu.Unlock()
			return
		}
		more := len(t.queue) > 0
		t.mu.Unlock()
		if n > 0 {
			limit := patience
			if closed {
				limit = lastPatience
			}
			if err := t.post(spans, limit); err != nil {
				t.dropped.Add(uint64(n))
				if !t.warned.Swap(true) {
					t.log.Warn("cannot send traces; traces are lost until the endpoint answers", "url", t.cfg.URL, "why", err)
				}
				if closed {
					return // nobody takes the rest, either
				}
			} else if t.warned.Swap(false) {
				t.log.Info("traces are sent again", "lost", t.dropped.Load())
			}
		}
		if last {
			return
		}
		if more || closed {
			t.poke()
		}
	}
}

func (t *Tracer) post(spans []spanJSON, limit time.Duration) error {
	body, err := json.Marshal(requestJSON{[]resourceSpansJSON{{
		Resource: resourceJSON{[]attributeJSON{text("service.name", t.cfg.Service), text("service.version", t.cfg.Version)}},
		Scopes:   []scopeSpansJSON{{Scope: scopeJSON{"toolhost", t.cfg.Version}, Spans: spans}},
	}}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.cfg.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	for name, value := range t.cfg.Headers {
		req.Header.Set(name, value)
	}
	res, err := t.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()                                      //nolint:errcheck // only read
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<20)) // so that the connection is used again
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("it answers %s", res.Status)
	}
	return nil
}

// Close sends what waits, for a moment, and ends the tracer.
func (t *Tracer) Close() {
	if t == nil {
		return
	}
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.poke()
	t.done.Wait()
	t.client.CloseIdleConnections()
}

// Dropped counts the spans that could not be sent.
func (t *Tracer) Dropped() uint64 { return t.dropped.Load() }

// What is posted, as https://opentelemetry.io/docs/specs/otlp/ says.
type (
	requestJSON struct {
		ResourceSpans []resourceSpansJSON `json:"resourceSpans"`
	}
	resourceSpansJSON struct {
		Resource resourceJSON     `json:"resource"`
		Scopes   []scopeSpansJSON `json:"scopeSpans"`
	}
	resourceJSON struct {
		Attributes []attributeJSON `json:"attributes"`
	}
	scopeSpansJSON struct {
		Scope scopeJSON  `json:"scope"`
		Spans []spanJSON `json:"spans"`
	}
	scopeJSON struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	spanJSON struct {
		Trace      string          `json:"traceId"`
		Span       string          `json:"spanId"`
		Parent     string          `json:"parentSpanId,omitempty"`
		Name       string          `json:"name"`
		Kind       int             `json:"kind"`
		Start      string          `json:"startTimeUnixNano"`
		End        string          `json:"endTimeUnixNano"`
		Attributes []attributeJSON `json:"attributes,omitempty"`
		Status     *statusJSON     `json:"status,omitempty"`
	}
	attributeJSON struct {
		Key   string    `json:"key"`
		Value valueJSON `json:"value"`
	}
	valueJSON struct {
		String *string `json:"stringValue,omitempty"`
		Int    *string `json:"intValue,omitempty"`
		Bool   *bool   `json:"boolValue,omitempty"`
	}
	statusJSON struct {
		Code    int    `json:"code"`
		Message string `json:"message,omitempty"`
	}
)

func text(key, value string) attributeJSON { return attributeJSON{key, valueJSON{String: &value}} }
