package host_test

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"toolhost.dev/host"
)

// BenchmarkBegin measures the method Begin alone, for a command and for a call of a function. The unit ns/op also
// includes the call itself.
func BenchmarkBegin(b *testing.B) {
	work, config := b.TempDir(), filepath.Join(b.TempDir(), "toolhost.hcl")
	for path, text := range map[string]string{config: "bundled = false\nplugin \"read\" {}\nplugin \"testplugin\" {}" + unconfined, filepath.Join(work, "f"): "text\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	h := open(b, host.Options{Config: config, Workspace: work})
	for _, req := range []host.Request{{Command: "read f"}, {Name: "read", Arguments: json.RawMessage(`{"file_path":"f"}`)}} {
		b.Run(cmp.Or(req.Command, "call of "+req.Name), func(b *testing.B) {
			var begin time.Duration
			for b.Loop() {
				start := time.Now()
				p := h.Begin(req, nil)
				begin += time.Since(start)
				if res := p.Run(b.Context()); res.Error != nil {
					b.Fatal(res.Error)
				}
			}
			b.ReportMetric(float64(begin.Nanoseconds())/float64(b.N), "ns/begin")
		})
	}
}
