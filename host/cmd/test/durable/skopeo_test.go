package durable

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

// skopeo returns the command that copies images, with its arguments. It skips the test if the program is missing.
func skopeo(t *testing.T) string {
	t.Helper()
	debian := hosttest.SourceEnv()["DEBIAN"]
	program := filepath.Join(debian, "usr/bin/skopeo")
	if _, err := os.Stat(program); debian != "" && err == nil {
		return program + " --insecure-policy"
	}
	program, err := exec.LookPath("skopeo")
	if err != nil {
		t.Skip("skopeo is not installed; make peers-debian unpacks it")
	}
	return program + " --insecure-policy"
}

// TestCopiedArtifacts checks a copy of a published plugin. The copy was made with skopeo, with which operators copy
// images to their own registry. The copy must have the same digests, so that a machine with the lock file can install
// it through a mirror. skopeo copies no signatures, so the copy must not be added to a lock file.
func TestCopiedArtifacts(t *testing.T) {
	t.Parallel()
	copies := skopeo(t)
	origin, own := hosttest.NewRegistry(t), hosttest.NewRegistry(t)
	source := origin + "/acme/weather"
	config := func(to string) string {
		text := "bundled = false\nplugin \"weather\" { source = \"" + source + "\" }\n"
		if to != "" {
			text += "mirror \"" + origin + "/*\" { to = \"" + to + "\" }\n"
		}
		return text
	}
	o := hosttest.NewOperator(t, config(""))
	o.Run(0, "toolhost plugin key acme")
	path := filepath.Join(o.Dir, "build", "weather")
	hosttest.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	b, err := os.ReadFile(filepath.Join(hosttest.Bin, "testplugin"))
	hosttest.Must(t, err)
	hosttest.Must(t, os.WriteFile(path, append(b, "\n!variant name=weather version=1.0.0\n"...), 0o755))
	o.Run(0, fmt.Sprintf("toolhost plugin publish --key acme.key --platform %s/%s=%s %s:1.0.0", runtime.GOOS, runtime.GOARCH, path, source), "signed by")
	o.Run(0, "toolhost plugin install", "weather 1.0.0  installed")

	// With the option, skopeo fails instead of changing a digest.
	for _, options := range []string{"", "--preserve-digests "} {
		o.Run(0, copies+" copy --all "+options+"--src-tls-verify=false --dest-tls-verify=false docker://"+source+":1.0.0 docker://"+own+"/hub/acme/weather:1.0.0")
	}
	digest := func(at string) string {
		return o.Run(0, copies+" inspect --raw --tls-verify=false docker://"+at+":1.0.0 | sha256sum")
	}
	if a, b := digest(source), digest(own+"/hub/acme/weather"); a != b {
		t.Errorf("the index of the copy has another digest: %s, %s", a, b)
	}

	locked := hosttest.NewOperator(t, config(own+"/hub"))
	hosttest.Must(t, os.WriteFile(filepath.Join(locked.Dir, "config", "toolhost", "toolhost.lock.json"), []byte(o.Lock()), 0o644))
	locked.Run(0, "toolhost plugin install --locked", "weather 1.0.0  installed")
	locked.Run(0, "toolhost run 'echo hello'", "hello")
	if locked.Lock() != o.Lock() {
		t.Errorf("the lock file changed:\n%s", locked.Lock())
	}
	unlocked := hosttest.NewOperator(t, config(own+"/hub"))
	unlocked.Run(1, "toolhost plugin install", "not signed")
	if unlocked.Lock() != "" {
		t.Errorf("an unsigned copy is in the lock file:\n%s", unlocked.Lock())
	}
}
