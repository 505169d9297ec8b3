package telemetry

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

func TestParse(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	if c := ParseTrace(good); !c.Valid() || !c.Sampled || c.String() != good || c.ID() != "0af7651916cd43dd8448eb211c80319c" {
		t.Errorf("%v", c)
	}
	for header, valid := range map[string]bool{
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00":       true,
		"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-later": true, // from a later version of the standard
		"": false, "-": false, "00": false,
		"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01":      false,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more": false,
		"00-00000000000000000000000000000000-b7ad6b7169203331-01":      false,
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01":      false,
		"00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01":      false,
		"00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01":       false,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333x-01":      false,
	} {
		if c := ParseTrace(header); c.Valid() != valid {
			t.Errorf("%q: %v", header, c)
		}
	}
}

func TestWithoutATracerContextsArePassedOn(t *testing.T) {
	var none *Tracer
	parent := ParseTrace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	s, at := none.Start(parent, "x")
	if s != nil || at != parent {
		t.Errorf("%v %v", s, at)
	}
	s.Set("a", "b") // must have no effect
	s.Fail("x")
	s.End()
	none.Close()
}

func TestSpansAreSent(t *testing.T) {
	var spans atomic.Int64
	var bad atomic.Value
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		var got requestJSON
		if err := json.Unmarshal(text, &got); err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("X-Key") != "k" || r.Header.Get("Content-Type") != "application/json" {
			bad.Store(string(text))
			return
		}
		for _, s := range got.ResourceSpans[0].Scopes[0].Spans {
			if len(s.Trace) != 32 || len(s.Span) != 16 || s.Start == "" || s.End < s.Start {
				bad.Store(string(text))
			}
			spans.Add(1)
		}
	}))
	defer collector.Close()
	tr := NewTracer(TraceConfig{URL: collector.URL + "/v1/traces", Headers: map[string]string{"X-Key": "k"}, Service: "s", Sample: 1}, slog.New(slog.DiscardHandler))
	const n = 3 * maxPost
	for range n {
		s, at := tr.Start(TraceContext{}, "x")
		s.Set("number", 1)
		s.Set("truth", true)
		s.End()
		if !at.Valid() || !at.Sampled {
			t.Fatal(at)
		}
	}
	tr.Close()
	if spans.Load() != n || bad.Load() != nil || tr.Dropped() != 0 {
		t.Errorf("%d spans, %d dropped, %v", spans.Load(), tr.Dropped(), bad.Load())
	}
	s, _ := tr.Start(TraceContext{}, "late")
	s.End() // the span is dropped without an error
}

func TestWhatIsNotSampledIsNotRecorded(t *testing.T) {
	tr := NewTracer(TraceConfig{URL: "http://127.0.0.1:1", Sample: 0}, slog.New(slog.DiscardHandler))
	if s, at := tr.Start(TraceContext{}, "x"); s != nil || !at.Valid() || at.Sampled || !strings.HasSuffix(at.String(), "-00") {
		t.Errorf("%v %v", s, at)
	}
	parent := ParseTrace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if s, at := tr.Start(parent, "x"); s == nil || at.Trace != parent.Trace || at.Span == parent.Span {
		t.Errorf("whoever asks is not followed: %v %v", s, at)
	} else {
		s.End()
	}
	tr.Close() // no server listens
	if tr.Dropped() != 1 {
		t.Errorf("%d dropped", tr.Dropped())
	}
	half := NewTracer(TraceConfig{Sample: 0.5}, nil)
	some := 0
	for range 2000 {
		if s, _ := half.Start(TraceContext{}, "x"); s != nil {
			some++
		}
	}
	if some < 800 || some > 1200 {
		t.Errorf("%d of 2000", some)
	}
}

func TestWhatWaitsIsBounded(t *testing.T) {
	tr := NewTracer(TraceConfig{URL: "http://127.0.0.1:1", Sample: 1}, slog.New(slog.DiscardHandler))
	tr.running = true // no goroutine starts to send spans
	for range maxQueued + 5 {
		s, _ := tr.Start(TraceContext{}, "x")
		s.End()
	}
	if len(tr.queue) != maxQueued || tr.Dropped() != 5 {
		t.Errorf("%d wait, %d dropped", len(tr.queue), tr.Dropped())
	}
}
