package mcp

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/host/cmd/test/hosttest"
)

// The addresses of the network in which TestLoginStaysOutside runs. Two of them are public, for the mounted server and
// for the control.
const (
	serverAddress  = "8.8.8.8"
	controlAddress = "9.9.9.9"
)

var insideAddresses = []string{"127.0.0.1", "10.0.0.1", "169.254.169.254"}

// isolated is the name of the environment variable that is set in the process with its own network.
const isolated = "TOOLHOST_TEST_ISOLATED"

// TestLoginStaysOutside checks that a login at a hostile public server makes no connection to the operator's network.
// The server leads the host to addresses of this network in four ways: by the address of its metadata, by a redirect,
// by the address of its authorization server, and by a DNS name that changes. As a control, the server also leads the
// host to another public address in each of these ways. This address must get a connection.
//
// The test runs itself again in a network namespace that has all these addresses.
func TestLoginStaysOutside(t *testing.T) {
	if os.Getenv(isolated) == "" {
		t.Parallel()
		c := exec.Command(os.Args[0], "-test.run=^TestLoginStaysOutside$", "-test.v")
		c.Env = append(os.Environ(), isolated+"=1", "TOOLHOST_TEST_BIN="+hosttest.Bin)
		c.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
		out, err := c.CombinedOutput()
		if len(out) == 0 && err != nil {
			t.Skipf("no namespaces: %v", err)
		}
		if err != nil || !strings.Contains(string(out), "--- PASS: TestLoginStaysOutside") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	for i, a := range append([]string{serverAddress, controlAddress}, insideAddresses...) {
		addAddress(t, i, a)
	}
	var current atomic.Pointer[string] // the address of rebind.test
	startDNS(t, &current)
	certificate, roots := selfSigned(t)
	var lead atomic.Pointer[func(w http.ResponseWriter, r *http.Request)]
	public := listenTLS(t, net.JoinHostPort(serverAddress, "0"), certificate, func() {}, func(w http.ResponseWriter, r *http.Request) { (*lead.Load())(w, r) })
	_, port, _ := net.SplitHostPort(public)
	var reached atomic.Int64
	for _, a := range append([]string{controlAddress}, insideAddresses...) {
		listenTLS(t, net.JoinHostPort(a, port), certificate, func() { reached.Add(1) }, http.NotFound)
	}
	dir, at := hosttest.MCPDir(t), net.JoinHostPort
	config := "bundled = false\nfield \"up\" {\n  mcp {\n    url = \"https://%s/mcp\"\n  }\n}\n"
	login := func(server string) string {
		hosttest.Must(t, os.WriteFile(filepath.Join(dir, "toolhost.hcl"), fmt.Appendf(nil, config, server), 0o600))
		c := hosttest.Toolhost(t, dir, "mcp", "login", "up", "--no-browser", "--wait", "30s")
		c.Env = append(os.Environ(), "SSL_CERT_FILE="+roots)
		c.Stderr = nil
		out, err := c.CombinedOutput()
		if err == nil {
			t.Errorf("the login succeeds: %s", out)
		}
		return string(out)
	}
	challenge := func(w http.ResponseWriter, metadata string) {
		w.Header().Set("WWW-Authenticate", fmt.Sprintf("Bearer resource_metadata=%q", metadata))
		w.WriteHeader(http.StatusUnauthorized)
	}
	ways := map[string]func(target string, w http.ResponseWriter, r *http.Request){
		"metadata": func(target string, w http.ResponseWriter, _ *http.Request) {
			challenge(w, "https://"+target+"/metadata")
		},
		"redirect": func(target string, w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/mcp" {
				challenge(w, "https://"+r.Host+"/metadata")
				return
			}
			http.Redirect(w, r, "https://"+target+"/moved", http.StatusFound)
		},
		"authorization server": func(target string, w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/mcp" {
				challenge(w, "https://"+r.Host+"/metadata")
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"resource": "https://%s/mcp", "authorization_servers": ["https://%s"]}`, r.Host, target)
		},
	}
	try := func(name, target string, run func() string) {
		reached.Store(0)
		out := run()
		switch n := reached.Load(); {
		case target == controlAddress && n == 0:
			t.Errorf("%s: the control does not reach %s: %s", name, target, out)
		case target != controlAddress && n > 0:
			t.Errorf("%s: %s gets %d connections: %s", name, target, n, out)
		}
	}
	for _, target := range append([]string{controlAddress}, insideAddresses...) {
		for name, way := range ways {
			f := func(w http.ResponseWriter, r *http.Request) { way(at(target, port), w, r) }
			lead.Store(&f)
			try(name, target, func() string { return login(public) })
		}
		first := serverAddress
		current.Store(&first)
		f := func(w http.ResponseWriter, r *http.Request) {
			current.Store(&target)
			challenge(w, "https://"+r.Host+"/metadata")
		}
		lead.Store(&f)
		try("DNS", target, func() string { return login(at("rebind.test", port)) })
	}
}

// addAddress adds an address to the loopback interface of the network namespace.
func addAddress(t *testing.T, i int, address string) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	hosttest.Must(t, err)
	defer unix.Close(fd)
	name := "lo"
	if address != "127.0.0.1" {
		name = fmt.Sprintf("lo:%d", i)
	}
	r, err := unix.NewIfreq(name)
	hosttest.Must(t, err)
	a := netip.MustParseAddr(address).As4()
	hosttest.Must(t, r.SetInet4Addr(a[:]))
	hosttest.Must(t, unix.IoctlIfreq(fd, unix.SIOCSIFADDR, r))
	up, err := unix.NewIfreq("lo")
	hosttest.Must(t, err)
	up.SetUint16(unix.IFF_UP | unix.IFF_RUNNING | unix.IFF_LOOPBACK)
	hosttest.Must(t, unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, up))
}

// startDNS starts a name server and makes it the only one in the process's mount namespace. The server answers each
// query with the current address.
func startDNS(t *testing.T, current *atomic.Pointer[string]) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "resolv.conf")
	hosttest.Must(t, os.WriteFile(file, []byte("nameserver 127.0.0.1\n"), 0o644))
	hosttest.Must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	hosttest.Must(t, unix.Mount(file, "/etc/resolv.conf", "", unix.MS_BIND, ""))
	s, err := net.ListenPacket("udp", "127.0.0.1:53")
	hosttest.Must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	go func() {
		b := make([]byte, 1500)
		for {
			n, from, err := s.ReadFrom(b)
			if err != nil {
				return
			}
			q := b[:n]
			end := 12 // end of the question, which follows the header
			for q[end] != 0 {
				end += int(q[end]) + 1
			}
			end += 5
			answer := append([]byte{q[0], q[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, q[12:end]...)
			if q[end-3] == 1 { // an A record: a pointer to the question, type, class, a lifetime of 0, and the address
				answer[7] = 1
				a := netip.MustParseAddr(*current.Load()).As4()
				answer = append(append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4), a[:]...)
			}
			_, _ = s.WriteTo(answer, from)
		}
	}()
}

// selfSigned returns a certificate for all servers of the test, and the path of a file with the certificate.
func selfSigned(t *testing.T) (certificate tls.Certificate, file string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	hosttest.Must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, DNSNames: []string{"rebind.test"}, IPAddresses: []net.IP{net.ParseIP(serverAddress), net.ParseIP(controlAddress)},
	}
	for _, a := range insideAddresses {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(a))
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	hosttest.Must(t, err)
	file = filepath.Join(t.TempDir(), "roots.pem")
	hosttest.Must(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}

// listenTLS starts a server and returns its address. The function "connected" is called for each connection.
func listenTLS(t *testing.T, address string, c tls.Certificate, connected func(), f http.HandlerFunc) string {
	t.Helper()
	l, err := net.Listen("tcp4", address)
	hosttest.Must(t, err)
	s := &http.Server{Handler: f, TLSConfig: &tls.Config{Certificates: []tls.Certificate{c}}, ConnState: func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connected()
		}
	}}
	t.Cleanup(func() { _ = s.Close() })
	go func() { _ = s.ServeTLS(l, "", "") }()
	return l.Addr().String()
}
