package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// skopeo returns the command that copies images, with its arguments. It skips the test if the program is missing.
func skopeo(t *testing.T) string {
	t.Helper()
	debian := sourceEnv()["DEBIAN"]
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
	origin, own := newRegistry(t), newRegistry(t)
	source := origin + "/acme/weather"
	config := func(to string) string {
		text := "bundled = false\nplugin \"weather\" { source = \"" + source + "\" }\n"
		if to != "" {
			text += "mirror \"" + origin + "/*\" { to = \"" + to + "\" }\n"
		}
		return text
	}
	o := newOperator(t, config(""))
	o.run(0, "toolhost plugin key acme")
	path := filepath.Join(o.dir, "build", "weather")
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	b, err := os.ReadFile(filepath.Join(bin, "testplugin"))
	must(t, err)
	must(t, os.WriteFile(path, append(b, "\n!variant name=weather version=1.0.0\n"...), 0o755))
	o.run(0, fmt.Sprintf("toolhost plugin publish --key acme.key --platform %s/%s=%s %s:1.0.0", runtime.GOOS, runtime.GOARCH, path, source), "signed by")
	o.run(0, "toolhost plugin install", "weather 1.0.0  installed")

	// With the option, skopeo fails instead of changing a digest.
	for _, options := range []string{"", "--preserve-digests "} {
		o.run(0, copies+" copy --all "+options+"--src-tls-verify=false --dest-tls-verify=false docker://"+source+":1.0.0 docker://"+own+"/hub/acme/weather:1.0.0")
	}
	digest := func(at string) string {
		return o.run(0, copies+" inspect --raw --tls-verify=false docker://"+at+":1.0.0 | sha256sum")
	}
	if a, b := digest(source), digest(own+"/hub/acme/weather"); a != b {
		t.Errorf("the index of the copy has another digest: %s, %s", a, b)
	}

	locked := newOperator(t, config(own+"/hub"))
	must(t, os.WriteFile(filepath.Join(locked.dir, "config", "toolhost", "toolhost.lock.json"), []byte(o.lock()), 0o644))
	locked.run(0, "toolhost plugin install --locked", "weather 1.0.0  installed")
	locked.run(0, "toolhost run 'echo hello'", "hello")
	if locked.lock() != o.lock() {
		t.Errorf("the lock file changed:\n%s", locked.lock())
	}
	unlocked := newOperator(t, config(own+"/hub"))
	unlocked.run(1, "toolhost plugin install", "not signed")
	if unlocked.lock() != "" {
		t.Errorf("an unsigned copy is in the lock file:\n%s", unlocked.lock())
	}
}
