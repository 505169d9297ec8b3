package calls

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestPlainWords searches for the bundled tools with the words that a person would use. Each line of testdata/plain.txt
// has such words and the tool that must come first. The lines after "# not used to tune" were written before the
// keywords of the tools and were not looked at when they were chosen. Of these, nine of ten must find their tool first.
func TestPlainWords(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config, state := filepath.Join(dir, "host.hcl"), hosttest.KeptState(t, dir+".state")
	work := filepath.Join(dir, "work")
	hosttest.Must(t, os.Mkdir(work, 0o755))
	hosttest.Must(t, os.WriteFile(config, []byte("plugin \"web\" {\n  sandbox { network = [\"nowhere.invalid\"] }\n}\ntool \"branch\" { enabled = true }\n"), 0o600))
	toolhost := hosttest.NewResident(t)
	text, err := os.ReadFile(filepath.Join("testdata", "plain.txt"))
	hosttest.Must(t, err)
	tuned, other, ok := strings.Cut(string(text), "# not used to tune\n")
	if !ok {
		t.Fatal("the file has one part")
	}
	late := func(lines string) (out []string) {
		for line := range strings.Lines(lines) {
			words, want, _ := strings.Cut(strings.TrimSpace(line), " | ")
			said, errs, _ := toolhost.Run(t, work, []string{"HOME=" + dir, "XDG_RUNTIME_DIR="}, "--config", config, "--state", state, "--json", "tools", "search", "--", words)
			var found struct {
				Tools []struct {
					Name string `json:"full_name"`
				}
			}
			if err := json.Unmarshal([]byte(said), &found); err != nil || errs != "" {
				t.Fatalf("%s: %v %s%s", words, err, said, errs)
			}
			if len(found.Tools) == 0 || found.Tools[0].Name != want {
				out = append(out, fmt.Sprintf("%s: %v, wanted %s", words, found.Tools, want))
			}
		}
		return out
	}
	if out := late(tuned); out != nil {
		t.Errorf("another tool comes first:\n%s", strings.Join(out, "\n"))
	}
	if out := late(other); 10*len(out) > strings.Count(other, "\n") {
		t.Errorf("another tool comes first too often:\n%s", strings.Join(out, "\n"))
	}
}
