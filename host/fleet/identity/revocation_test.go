package identity_test

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"toolhost.dev/sdk/durable"

	"toolhost.dev/host/fleet/identity"
)

// shake makes a TLS handshake between two nodes, and returns the error of the server or of the client.
func shake(t *testing.T, server, client *tls.Config) error {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	served := make(chan error, 1)
	go func() {
		c := tls.Server(a, server)
		err := c.Handshake()
		if err == nil {
			_, err = c.Write([]byte("x"))
		}
		served <- err
	}()
	c := tls.Client(b, client)
	err := c.Handshake()
	if err == nil {
		_, err = c.Read(make([]byte, 1))
	}
	if err != nil {
		b.Close()
	}
	return errors.Join(<-served, err)
}

func TestRevocations(t *testing.T) {
	dir := t.TempDir()
	a, err := identity.CreateAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	one, two := node(t, a, "one"), node(t, a, "two")
	both := func() (asServer, asClient error) {
		return shake(t, two.Server(true), one.Client(identity.ServerName("two"))), shake(t, one.Server(true), two.Client(identity.ServerName("one")))
	}
	if s, c := both(); s != nil || c != nil {
		t.Fatalf("%v, %v", s, c)
	}
	if err := os.WriteFile(filepath.Join(dir, "issued", durable.TempPrefix+"1"), []byte("-----BEGIN"), 0o600); err != nil { // a killed process left it
		t.Fatal(err)
	}
	first, serials, err := a.Revoke("two", two.Certificate(), []byte("no certificate"), node(t, authority(t), "two").Certificate())
	if err != nil || len(serials) != 1 {
		t.Fatalf("%v %v", serials, err)
	}
	if newer, err := one.Revocations().Learn(first); !newer || err != nil {
		t.Fatalf("%v %v", newer, err)
	}
	if s, c := both(); !errors.Is(s, identity.ErrRevoked) || !errors.Is(c, identity.ErrRevoked) {
		t.Errorf("a revoked node is accepted: %v, %v", s, c)
	}
	if !one.HasRevoked(two.Certificate()) || one.HasRevoked(one.Certificate()) || one.Revoked() != nil {
		t.Error("the list contains other certificates")
	}

	// A node must keep its list if it receives an older list or the list of another fleet.
	must := func(b []byte, err error) []byte {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	stored := must(os.ReadFile(filepath.Join(one.Dir, "revoked.crl")))
	if err := os.WriteFile(filepath.Join(dir, "revoked.crl"), stored, 0o600); err != nil {
		t.Fatal(err)
	}
	three := node(t, a, "three")
	second, _, err := a.Revoke("three")
	if err != nil {
		t.Fatal(err)
	}
	foreign, _, err := authority(t).Revoke("one", one.Certificate())
	if err != nil || foreign != nil {
		t.Fatalf("an authority revoked what it did not sign: %v", err)
	}
	other := authority(t)
	node(t, other, "one")
	if foreign, _, err = other.Revoke("one"); err != nil {
		t.Fatal(err)
	}
	changed := append([]byte{}, second...)
	changed[len(changed)/2]++
	for name, list := range map[string][]byte{"of another fleet": foreign, "that was changed": changed, "of nothing": nil} {
		if _, err := one.Revocations().Learn(list); err == nil {
			t.Errorf("a list %s is accepted", name)
		}
	}
	if newer, err := one.Revocations().Learn(second); !newer || err != nil || !one.HasRevoked(two.Certificate()) || !one.HasRevoked(three.Certificate()) {
		t.Errorf("the second list: %v %v", newer, err)
	}
	if newer, err := one.Revocations().Learn(first); newer || err != nil || !one.HasRevoked(three.Certificate()) {
		t.Errorf("an old list restores a certificate: %v %v", newer, err)
	}

	// Another process of the same node must use the list. A node with a damaged list must not start.
	again, err := identity.Open(one.Dir)
	if err != nil || !again.HasRevoked(three.Certificate()) {
		t.Errorf("the list is not stored: %v", err)
	}
	if err := os.WriteFile(filepath.Join(one.Dir, "revoked.crl"), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := identity.Open(one.Dir); err == nil {
		t.Error("a node starts with a damaged list")
	}
}

// TestRevocationsAreUsedWithoutDisk checks that a revocation list is used even if it cannot be stored. The list must be
// stored later.
func TestRevocationsAreUsedWithoutDisk(t *testing.T) {
	a := authority(t)
	one, two := node(t, a, "one"), node(t, a, "two")
	list, _, err := a.Revoke("two")
	if err != nil {
		t.Fatal(err)
	}
	away := one.Dir + ".away"
	if err := os.Rename(one.Dir, away); err != nil {
		t.Fatal(err)
	}
	if newer, err := one.Revocations().Learn(list); !newer || err == nil || !one.HasRevoked(two.Certificate()) {
		t.Errorf("%v %v", newer, err)
	}
	if err := os.Rename(away, one.Dir); err != nil {
		t.Fatal(err)
	}
	if newer, err := one.Revocations().Learn(list); newer || err != nil {
		t.Errorf("%v %v", newer, err)
	}
	if again, err := identity.Open(one.Dir); err != nil || !again.HasRevoked(two.Certificate()) {
		t.Errorf("the list was not stored: %v", err)
	}
}
