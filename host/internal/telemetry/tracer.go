package telemetry

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

// TraceConfig configures a [Tracer].
type TraceConfig struct {
	// URL is the address of the collector. Spans are sent in the format OTLP over HTTP with JSON.
	URL     string
	Headers map[string]string
	// Service is the name of the service in the traces.
	Service string
	Version string
	// Sample is the fraction of new traces to record, from 0 to 1. If a caller started the trace, the sampling flag of
	// the caller applies.
	Sample float64
}

const (
	// maxQueued is the maximum number of queued spans. Further spans are dropped and counted.
	maxQueued = 4096
	maxPost   = 512
	// delay is the time that a span waits for further spans, so that one request sends all of them.
	delay = time.Second
	// patience is the timeout of a request to the collector. lastPatience is the timeout of requests during Close.
	patience, lastPatience = 10 * time.Second, 2 * time.Second
)

// Tracer records spans. A nil Tracer records no spans, but still passes on contexts. It is safe for concurrent use.
type Tracer struct {
	cfg    TraceConfig
	log    *slog.Logger
	client http.Client

	mu      sync.Mutex
	queue   []spanJSON
	closed  bool
	running bool
	wake    chan struct{} // receives a value if many spans are queued, and on Close
	done    sync.WaitGroup
	dropped atomic.Uint64
	warned  atomic.Bool
}

// NewTracer returns a tracer. It starts a goroutine only after the end of the first span.
func NewTracer(cfg TraceConfig, log *slog.Logger) *Tracer {
	return &Tracer{cfg: cfg, log: log, wake: make(chan struct{}, 1)}
}

// Span is a recorded part of a call. The methods of a nil Span do nothing.
type Span struct {
	tracer *Tracer
	at     TraceContext
	json   spanJSON
}

// Start begins a span with a parent. If the span is not recorded, s is nil. The result "at" is the trace context inside
// the span, even if the span is not recorded.
func (t *Tracer) Start(parent TraceContext, name string) (s *Span, at TraceContext) {
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
	s = &Span{
		tracer: t, at: at, json: spanJSON{Trace: hex.EncodeToString(at.Trace[:]), Span: hex.EncodeToString(at.Span[:]),
			Name: name, Kind: kindInternal, Start: now()},
	}
	if parent.Valid() {
		s.json.Parent = hex.EncodeToString(parent.Span[:])
	}
	return s, at
}

// Kinds of spans.
const (
	kindInternal = 1
	kindServer   = 2
	kindClient   = 3
)

// Served marks the span as a request that this process serves.
func (s *Span) Served() {
	if s != nil {
		s.json.Kind = kindServer
	}
}

// Asked marks the span as a request to another process.
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

// Set sets an attribute of the span. The value must be a string, a number or a bool.
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

// End ends the span. The caller must call End once.
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

// send sends spans until the queue is empty or the tracer is closed.
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
		if n == 0 && !last { // the end of the next span starts send again
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
					return // further requests would fail, too
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
		Resource: resourceJSON{
			[]attributeJSON{text("service.name", t.cfg.Service), text("service.version", t.cfg.Version)},
		},
		Scopes: []scopeSpansJSON{{Scope: scopeJSON{"toolhost", t.cfg.Version}, Spans: spans}},
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
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<20)) // read the whole response, so that the connection can be reused
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("it answers %s", res.Status)
	}
	return nil
}

// Close sends the queued spans with a short timeout. Then it stops the tracer.
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

// Dropped returns the number of spans that could not be sent.
func (t *Tracer) Dropped() uint64 { return t.dropped.Load() }

// Types of a request to the collector, as defined in https://opentelemetry.io/docs/specs/otlp/.
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
