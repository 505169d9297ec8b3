package sdk_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/toolrpc"
)

// serveStuck is an environment variable. If it is set, the test program runs as a plugin whose Close does not return.
const serveStuck = "TOOLHOST_SERVE_STUCK"

func stuckPlugin() {
	sdk.Serve(sdk.Plugin{Name: "stuck", Version: "1.0.0", Close: func() { select {} }})
}

// TestHostDiesInHandshake checks that a plugin ends and removes its socket if the host dies before it connects, even if
// the plugin's Close does not return.
func TestHostDiesInHandshake(t *testing.T) {
	sockets := filepath.Join(t.TempDir(), "s")
	if err := os.Mkdir(sockets, 0o700); err != nil {
		t.Fatal(err)
	}
	lifeline, host, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serveStuck+"=1", toolrpc.Handshake.MagicCookieKey+"="+toolrpc.Handshake.MagicCookieValue,
		"PLUGIN_PROTOCOL_VERSIONS="+strconv.Itoa(toolrpc.ProtocolVersion), toolrpc.SocketDirEnv+"="+sockets, toolrpc.LifelineEnv+"=3")
	cmd.ExtraFiles, cmd.Stderr = []*os.File{lifeline}, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = lifeline.Close()
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("no handshake: %v", err)
	}
	if made, err := os.ReadDir(sockets); err != nil || len(made) != 1 {
		t.Fatalf("the plugin has no socket: %v, %v", made, err)
	}
	_ = host.Close()
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("the plugin ended with %v, want exit status 1", err)
	}
	if _, err := os.Stat(sockets); !os.IsNotExist(err) {
		t.Errorf("the directory of the socket remains: %v", err)
	}
}
