package sdk_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/toolrpc"
)

// serveStuck is an environment variable. If it is set, the test program runs as a plugin. With the value "1", the
// plugin's Close does not return. Otherwise, Close writes the value to standard error.
const serveStuck = "TOOLHOST_SERVE_STUCK"

func stuckPlugin() {
	sdk.Serve(sdk.Plugin{Name: "stuck", Version: "1.0.0", Close: func() {
		if last := os.Getenv(serveStuck); last != "1" {
			_, _ = syscall.Write(2, []byte(last)) // go-plugin replaces os.Stderr meanwhile
			return
		}
		select {}
	}})
}

// servedPlugin returns the command of a plugin that has its socket in a directory.
func servedPlugin(last, sockets string, lifeline *os.File) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serveStuck+"="+last, toolrpc.Handshake.MagicCookieKey+"="+toolrpc.Handshake.MagicCookieValue,
		"PLUGIN_PROTOCOL_VERSIONS="+strconv.Itoa(toolrpc.ProtocolVersion), toolrpc.SocketDirEnv+"="+sockets, toolrpc.LifelineEnv+"=3")
	cmd.ExtraFiles = []*os.File{lifeline}
	return cmd
}

// TestHostDiesBeforeHandshake checks that a plugin whose host has died already ends in order and removes its socket: it
// can still write to standard error, although nobody reads that.
func TestHostDiesBeforeHandshake(t *testing.T) {
	t.Parallel()
	closedReader := func() *os.File {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Close()
		return w
	}
	null, err := os.Open(os.DevNull) // at its end at once, as the lifeline of a dead host is
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for range 3 {
		sockets := filepath.Join(t.TempDir(), "s")
		if err := os.Mkdir(sockets, 0o700); err != nil {
			t.Fatal(err)
		}
		cmd := servedPlugin("the last words", sockets, null)
		out, messages := closedReader(), closedReader()
		cmd.Stdout, cmd.Stderr = out, messages
		err := cmd.Run()
		_, _ = out.Close(), messages.Close()
		if err != nil {
			t.Fatalf("the plugin ended with %v", err)
		}
		if _, err := os.Stat(sockets); !os.IsNotExist(err) {
			t.Fatalf("the directory of the socket remains: %v", err)
		}
	}
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
	cmd := servedPlugin("1", sockets, lifeline)
	cmd.Stderr = os.Stderr
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
