package console

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"toolhost.dev/host"
)

// fast and slow are the intervals between two updates of a page.
const (
	fast = 100 * time.Millisecond
	slow = 2 * time.Second
)

// events sends the changing part of a page whenever it changes, at most ten times a second.
func (c *Console) events(w http.ResponseWriter, r *http.Request, s *session) {
	q := r.URL.Query()
	name := q.Get("page")
	if loaders[name] == nil || c.views[name] == nil {
		http.Error(w, "there is no such page", http.StatusNotFound)
		return
	}
	q.Del("page")
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w)
	every := slow
	if name == "now" || name == "asks" {
		every = fast
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	last, silent := "", time.Now()
	for {
		if time.Since(silent) > 10*time.Second { // check the login again, because it can have ended
			if c.sessionOf(r) == nil {
				return
			}
			silent = time.Now()
			if _, err := fmt.Fprint(w, ": alive\n\n"); err != nil || flush.Flush() != nil {
				return
			}
		}
		now, err := c.live(r.Context(), name, s, q)
		if err != nil {
			return // the browser connects again
		}
		if now != last {
			last = now
			if _, err := fmt.Fprintf(w, "event: live\ndata: %s\n\n", strings.ReplaceAll(now, "\n", "\ndata: ")); err != nil || flush.Flush() != nil { //nolint:gosec // a template escaped it
				return
			}
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}

// live renders the changing part of a page.
func (c *Console) live(ctx context.Context, name string, s *session, q url.Values) (string, error) {
	v, err := c.view(ctx, name, s, q)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	err = c.views[name].ExecuteTemplate(&b, "live", v)
	return b.String(), err
}

// figures keeps samples of the statistics. With them, a plot also shows the time before its page was opened.
type figures struct {
	begin sync.Once

	mu       sync.Mutex
	samples  []sample
	before   *host.Stats
	alarms   []host.Alarm
	alarmsAt time.Time
}

// sample holds the rates between two moments.
type sample struct {
	At      float64                 `json:"at"` // seconds since 1970
	Tools   map[string]toolSample   `json:"tools"`
	Plugins map[string]pluginSample `json:"plugins"`
}

type toolSample struct {
	Calls  float64 `json:"calls"`  // a second
	Errors float64 `json:"errors"` // a second
	P50    float64 `json:"p50"`    // ms
	P95    float64 `json:"p95"`
	P99    float64 `json:"p99"`
}

type pluginSample struct {
	CPU    float64 `json:"cpu"`    // processors
	Memory float64 `json:"memory"` // bytes
}

const (
	sampleEvery = 5 * time.Second
	maxSamples  = 720 // an hour
)

// sampled returns the samples so far. Its first call starts the sampling.
func (c *Console) sampled() []sample {
	f := &c.figure
	f.begin.Do(func() {
		go func() {
			for {
				var now host.Stats
				if c.get(context.Background(), host.LocalUser(), "/v1/stats", &now) == nil {
					f.add(&now)
				}
				time.Sleep(sampleEvery)
			}
		}()
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]sample{}, f.samples...)
}

func (f *figures) add(now *host.Stats) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.before
	f.before = now
	if before == nil {
		return
	}
	s := sample{At: float64(time.Now().UnixMilli()) / 1000, Tools: make(map[string]toolSample),
		Plugins: make(map[string]pluginSample)}
	seconds := sampleEvery.Seconds()
	for _, t := range now.Tools {
		var was host.ToolStats
		for i := range before.Tools {
			if before.Tools[i].Name == t.Name {
				was = before.Tools[i]
			}
		}
		s.Tools[t.Name] = toolSample{
			Calls: float64(t.Calls-was.Calls) / seconds, Errors: float64(t.Failures-was.Failures) / seconds,
			P50: t.Execution.P50, P95: t.Execution.P95, P99: t.Execution.P99,
		}
	}
	for _, p := range now.Plugins {
		if p.Usage == nil {
			continue
		}
		out := pluginSample{Memory: float64(p.Usage.Memory)}
		for _, b := range before.Plugins {
			if b.Name == p.Name && b.Usage != nil {
				out.CPU = max(0, p.Usage.CPU-b.Usage.CPU) / seconds
			}
		}
		s.Plugins[p.Name] = out
	}
	if f.samples = append(f.samples, s); len(f.samples) > maxSamples {
		f.samples = f.samples[1:]
	}
}

// series sends the samples for the plots.
func (c *Console) series(w http.ResponseWriter, _ *http.Request, s *session) {
	if !s.principal.Has(host.RightLog) {
		http.Error(w, "this needs the right log", http.StatusForbidden)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(c.sampled()) // the error is ignored: the client is gone
}

func loadFigures(ctx context.Context, c *Console, s *session, v *view) error {
	var stats host.Stats
	if err := c.get(ctx, s.principal, "/v1/stats", &stats); err != nil {
		return err
	}
	c.sampled()
	v.Data = stats
	return nil
}
