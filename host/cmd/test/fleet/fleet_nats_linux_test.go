package fleet

import (
	"bufio"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"toolhost.dev/host/cmd/test/hosttest"
)

// natsPEM writes a self-signed certificate for 127.0.0.1, and its key.
func natsPEM(t *testing.T, dir string) (cert, key string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	hosttest.Must(t, err)
	as := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "nats"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, as, as, public, private)
	hosttest.Must(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	hosttest.Must(t, err)
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	hosttest.Must(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	hosttest.Must(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), 0o600))
	return cert, key
}

// otherVersion returns an address at which the NATS server of another address announces the given version. The server
// must not use TLS.
func otherVersion(t *testing.T, address, version string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	hosttest.Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	announced := regexp.MustCompile(`"version":"[^"]*"`)
	relay := func(client net.Conn) {
		defer client.Close()
		server, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		go func() {
			_, _ = io.Copy(server, client)
			_ = server.Close()
		}()
		for from := bufio.NewReader(server); err == nil; {
			var line string
			line, err = from.ReadString('\n')
			if strings.HasPrefix(line, "INFO ") {
				line = announced.ReplaceAllLiteralString(line, fmt.Sprintf(`"version":%q`, version))
			}
			if _, failed := io.WriteString(client, line); failed != nil {
				return
			}
		}
	}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go relay(client)
		}
	}()
	return l.Addr().String()
}

// testNATS is a NATS server.
type testNATS struct {
	t       *testing.T
	address string
	args    []string
	cmd     *exec.Cmd
	log     string // path of its log
}

// natsServer starts a NATS server with the given arguments. The server ends with the test.
func natsServer(t *testing.T, args ...string) *testNATS {
	t.Helper()
	s := &testNATS{t: t, address: fleetPort(t), args: args, log: filepath.Join(t.TempDir(), "nats.log")}
	s.start()
	t.Cleanup(s.kill)
	return s
}

// start starts the server, and waits until the server itself says that it is ready. A connection to its port would not
// show that, because the server ends if another process has taken the port.
func (s *testNATS) start() {
	s.t.Helper()
	host, port, err := net.SplitHostPort(s.address)
	hosttest.Must(s.t, err)
	hosttest.Must(s.t, os.RemoveAll(s.log))
	s.cmd = exec.Command(natsProgram(), append([]string{"--addr", host, "--port", port, "--log", s.log}, s.args...)...)
	hosttest.Must(s.t, s.cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = s.cmd.Process.Wait()
	}()
	hosttest.Wait(s.t, "the NATS server is ready", func() bool {
		said, _ := os.ReadFile(s.log)
		select {
		case <-ended:
			s.t.Fatalf("the NATS server ended:\n%s", said)
		default:
		}
		return strings.Contains(string(said), "Server is ready")
	})
}

// kill kills the server with SIGKILL, and waits until it has ended.
func (s *testNATS) kill() {
	_ = s.cmd.Process.Kill()
	hosttest.Wait(s.t, "the NATS server has ended", func() bool { return s.cmd.Process.Signal(syscall.Signal(0)) != nil })
}

// natsFleet returns a fleet that uses an external NATS server, whose URL and other settings are given.
func natsFleet(t *testing.T, url, settings string) *testFleet {
	t.Helper()
	f := newFleet(t, fmt.Sprintf("nats {\n urls = [%q]\n replicas = 1\n%s}", url, settings))
	b, err := os.ReadFile(f.config)
	hosttest.Must(t, err)
	hosttest.Must(t, os.WriteFile(f.config, []byte(strings.Replace(string(b), `lease = "2s"`, `lease = "12s"`, 1)), 0o644))
	return f
}

// runUnready starts a node that cannot use its NATS server. The node ends with the fleet.
func (f *testFleet) runUnready(t *testing.T, name string) *fleetNode {
	t.Helper()
	hosttest.Must(t, os.MkdirAll(filepath.Join(f.dir, name, "work"), 0o755))
	n := &fleetNode{fleet: f, name: name, state: filepath.Join(f.dir, name, "state"), listen: fleetPort(t)}
	f.nodes[name] = n
	go func() { _ = n.tryRun() }()
	return n
}

// TestFleetOldNATS checks that a node refuses a NATS server that is too old, and uses one with the oldest supported
// version.
func TestFleetOldNATS(t *testing.T) {
	t.Parallel()
	address := natsServer(t, "--jetstream", "--store_dir", t.TempDir()).address
	at := func(version string) *testFleet {
		return natsFleet(t, "nats://"+otherVersion(t, address, version), "")
	}
	old := at("2.11.9").runUnready(t, "old")
	hosttest.Wait(t, "the node refuses the server", func() bool {
		return strings.Contains(old.said(), "the NATS server has version v2.11.9, and a fleet needs v2.12.0 or later: upgrade the server")
	})
	at("2.12.0").start("one").want("s", "true")
}

// natsProgram returns the path of the NATS server.
func natsProgram() string { return filepath.Join(hosttest.Bin, "nats-server") }

// TestFleetExternalNATS checks two fleets in different accounts of one NATS server, which requires TLS with client
// certificates. After a restart of the server, the fleets must work again.
func TestFleetExternalNATS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := natsPEM(t, dir)
	config := filepath.Join(dir, "nats.conf")
	hosttest.Must(t, os.WriteFile(config, fmt.Appendf(nil, `
jetstream { store_dir: %q, sync_interval: always }
tls { cert_file: %q, key_file: %q, ca_file: %q, verify: true }
accounts {
  agents { jetstream: enabled, users: [ { user: agents, password: secret } ] }
  others { jetstream: enabled, users: [ { user: others, password: secret } ] }
  poor { users: [ { user: poor, password: secret } ] }
}
`, filepath.Join(dir, "js"), cert, key, cert), 0o600))
	server := natsServer(t, "--config", config)
	fleetOf := func(user, files string) *testFleet {
		return natsFleet(t, fmt.Sprintf("tls://%s:secret@%s", user, server.address), files)
	}
	files := fmt.Sprintf("ca = %q\ncertificate = %q\nkey = %q\n", cert, cert, key)
	// Nodes with wrong settings must log the problem and wait.
	wrong := map[string]*testFleet{"x509": fleetOf("agents", ""), "tls": fleetOf("agents", fmt.Sprintf("ca = %q\n", cert)), "JetStream": fleetOf("poor", files)}
	for _, f := range wrong {
		f.runUnready(t, "wrong")
	}

	f := fleetOf("agents", files)
	one, two := f.start("one"), f.start("two")
	alone := fleetOf("others", files).start("one") // a fleet with the same name in another account
	for i, n := range []*fleetNode{one, two} {
		n.want("s", fmt.Sprintf("echo %d >> log", i))
	}
	server.kill()
	server.start()
	two.want("s", "echo 2 >> log")
	if b, err := os.ReadFile(filepath.Join(f.workspace, "log")); err != nil || string(b) != "0\n1\n2\n" {
		t.Errorf("%q %v", b, err)
	}
	alone.want("s", "true")
	if out := alone.do("fleet", "status"); strings.Contains(out, "two") || !strings.Contains(out, "1 session,") {
		t.Errorf("the fleet of the other account:\n%s", out)
	}
	for why, f := range wrong {
		hosttest.Wait(t, "the log contains "+why, func() bool { return strings.Contains(f.nodes["wrong"].said(), why) })
		if said := f.nodes["wrong"].said(); strings.Contains(said, "secret") {
			t.Errorf("the log has the password: %s", said)
		}
	}
}
