package identity

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"toolhost.dev/sdk/durable"
)

const (
	// issuedDir is the directory of the authority with the certificates that it signed.
	issuedDir = "issued"
	// revokedFile contains the newest list of revoked certificates that a node knows. It is a CRL in PEM.
	revokedFile = "revoked.crl"
)

// ErrRevoked means that the authority of the fleet has revoked a certificate.
var ErrRevoked = errors.New("the fleet has revoked the certificate of this node")

// Revocations are the certificates that the authority of a fleet has revoked. The list has the signature of the
// authority, so it does not matter who delivers it. In the directory of its identity, a node keeps the newest list that
// it has seen. Revocations are safe for concurrent use, also by several processes.
type Revocations struct {
	path      string
	authority *x509.Certificate

	mu      sync.RWMutex
	file    fs.FileInfo // the file that was read; nil before the first read
	list    *x509.RevocationList
	saved   bool            // whether the list is in the file
	revoked map[string]bool // by serial number, in hexadecimal digits
}

// openRevocations reads the list in a directory.
func openRevocations(dir string, authority *x509.Certificate) (*Revocations, error) {
	r := &Revocations{path: filepath.Join(dir, revokedFile), authority: signer(authority)}
	return r, r.Refresh()
}

// SaveRevocations stores the first list of a new node, in DER, for [Open]. The certificate of the authority is in DER.
func SaveRevocations(dir string, list, authority []byte) error {
	cert, err := x509.ParseCertificate(authority)
	if err != nil {
		return err
	}
	r, err := openRevocations(dir, cert)
	if err == nil {
		_, err = r.Learn(list)
	}
	return err
}

// signer returns an authority that can sign a list. The certificates of authorities from earlier versions lack the key
// usage for lists.
func signer(authority *x509.Certificate) *x509.Certificate {
	out := *authority
	out.KeyUsage |= x509.KeyUsageCRLSign
	return &out
}

// Refresh reads the file again if another process has replaced it.
func (r *Revocations) Refresh() error {
	now, err := os.Stat(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // an operator who removes the file does not restore a certificate before the process ends
	}
	r.mu.RLock()
	same := err == nil && r.file != nil && os.SameFile(now, r.file) && now.ModTime().Equal(r.file.ModTime())
	r.mu.RUnlock()
	if same {
		return nil
	}
	der, err := readPEM(r.path)
	if err == nil {
		_, err = r.accept(der, now)
	}
	if err != nil {
		return fmt.Errorf("the list of revoked certificates %s cannot be used: %w. Copy the file from another node", r.path, err)
	}
	return nil
}

// accept adopts a list if it is newer. The parameter "now" describes the file that contains the list. Nil means that no
// file contains the list.
func (r *Revocations) accept(der []byte, now fs.FileInfo) (newer bool, err error) {
	list, err := x509.ParseRevocationList(der)
	if err != nil {
		return false, err
	}
	if err := list.CheckSignatureFrom(r.authority); err != nil {
		return false, fmt.Errorf("it is not from the authority of the fleet: %w", err)
	}
	revoked := make(map[string]bool, len(list.RevokedCertificateEntries))
	for _, e := range list.RevokedCertificateEntries {
		revoked[e.SerialNumber.Text(16)] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	newer = r.list == nil || list.Number.Cmp(r.list.Number) > 0
	if newer {
		r.list, r.revoked, r.saved = list, revoked, now != nil
	}
	switch known := bytes.Equal(list.Raw, r.list.Raw); {
	case !known:
	case now != nil:
		r.file, r.saved = now, true
	case !r.saved: // the list is used even if it cannot be stored
		if err := writePEM(r.path, "X509 CRL", der, 0o644); err != nil {
			return newer, err
		}
		r.saved = true // Refresh reads the file once more
	}
	return newer, nil
}

// Learn adopts a list in DER, and stores it. It reports whether the list is newer than the known one. If only storing
// fails, the list is used nevertheless, and the next call of Learn with the same list stores it.
func (r *Revocations) Learn(der []byte) (newer bool, err error) {
	if newer, err = r.accept(der, nil); err != nil {
		err = fmt.Errorf("the list of revoked certificates cannot be used: %w", err)
	}
	return newer, err
}

// DER returns the known list, or nil.
func (r *Revocations) DER() []byte {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.list == nil {
		return nil
	}
	return r.list.Raw
}

// Check returns [ErrRevoked] if a certificate is revoked.
func (r *Revocations) Check(cert *x509.Certificate) error {
	if r.Has(cert.SerialNumber.Text(16)) {
		return ErrRevoked
	}
	return nil
}

// Has reports whether the certificate with a serial number, in hexadecimal digits, is revoked.
func (r *Revocations) Has(serial string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.revoked[serial]
}

// verify returns an error if the certificate of the other side of a connection is revoked. crypto/tls has already
// checked the signature of the certificate.
func (r *Revocations) verify(s tls.ConnectionState) error {
	if len(s.PeerCertificates) == 0 {
		return nil // a stranger, who can only join
	}
	if err := r.Refresh(); err != nil {
		return err
	}
	return r.Check(s.PeerCertificates[0])
}

// Revoke revokes all certificates that the authority signed for a node. They include the certificates in the argument
// "others", which are in DER. Revoke returns the new list in DER, and the serial numbers that are new in it. The list
// is not stored: [Revocations.Learn] does that. Calls must not overlap.
func (a *Authority) Revoke(node string, others ...[]byte) (list []byte, serials []string, err error) {
	known, err := openRevocations(a.dir, a.cert)
	if err != nil {
		return nil, nil, err
	}
	certs, err := a.issued(node, others)
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	tmpl := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: now, NextUpdate: now.Add(lifetime)}
	if known.list != nil {
		tmpl.Number.Add(known.list.Number, tmpl.Number)
		tmpl.RevokedCertificateEntries = known.list.RevokedCertificateEntries
	}
	for _, c := range certs {
		if known.Check(c) == nil {
			tmpl.RevokedCertificateEntries = append(tmpl.RevokedCertificateEntries, x509.RevocationListEntry{
				SerialNumber: c.SerialNumber, RevocationTime: now,
			})
			serials = append(serials, c.SerialNumber.Text(16))
		}
	}
	if len(serials) == 0 {
		return known.DER(), nil, nil
	}
	list, err = x509.CreateRevocationList(rand.Reader, tmpl, signer(a.cert), a.key)
	return list, serials, err
}

// issued returns the recorded certificates of a node, and the certificates in "others" that the authority signed for
// it.
func (a *Authority) issued(node string, others [][]byte) (out []*x509.Certificate, err error) {
	files, err := os.ReadDir(filepath.Join(a.dir, issuedDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	add := func(c *x509.Certificate) {
		if c.Subject.CommonName == node && !slices.ContainsFunc(out, c.Equal) {
			out = append(out, c)
		}
	}
	for _, f := range files {
		if strings.HasPrefix(f.Name(), durable.TempPrefix) { // a process was killed before any node got this certificate
			continue
		}
		c, err := readCert(filepath.Join(a.dir, issuedDir, f.Name()))
		if err != nil {
			return nil, fmt.Errorf("a certificate that the authority signed cannot be read: %w", err)
		}
		add(c)
	}
	for _, der := range others {
		if c, err := x509.ParseCertificate(der); err == nil && c.CheckSignatureFrom(a.cert) == nil {
			add(c)
		}
	}
	return out, nil
}

// keep records a certificate before a node gets it.
func (a *Authority) keep(cert []byte, serial *big.Int) error {
	dir := filepath.Join(a.dir, issuedDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return writePEM(filepath.Join(dir, serial.Text(16)+".crt"), "CERTIFICATE", cert, 0o644)
}
