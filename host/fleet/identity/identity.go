// Package identity holds the keys of a fleet. The first node makes a certificate authority ([CreateAuthority]). Each
// node has an Ed25519 key and a certificate of the authority ([Identity]), with which it authenticates its connections
// and signs its statements about its clients ([Identity.Sign], [Identity.Verify]). The authority can revoke a
// certificate ([Authority.Revoke], [Revocations]).
package identity

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"toolhost.dev/sdk/durable"

	"toolhost.dev/host/internal/nodename"
)

// Names of files in the directory of a node's identity.
const (
	authorityCert = "ca.crt"
	authorityKey  = "ca.key"
	nodeCert      = "node.crt"
	nodeKey       = "node.key"
)

// lifetime is the time for which certificates are valid.
const lifetime = 10 * 365 * 24 * time.Hour

// CoordinatorName is the name of all coordinators in certificates.
const CoordinatorName = "coordinator.fleet.toolhost"

// ServerName returns the name of a node in its certificate.
func ServerName(node string) string { return node + ".node.fleet.toolhost" }

// Authority signs the certificates of nodes.
type Authority struct {
	dir  string
	cert *x509.Certificate
	key  ed25519.PrivateKey
}

// CreateAuthority makes the authority of a new fleet in a directory, or opens the existing authority.
func CreateAuthority(dir string) (*Authority, error) {
	a, err := OpenAuthority(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return a, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	tmpl := template("toolhost fleet")
	tmpl.IsCA, tmpl.BasicConstraintsValid, tmpl.KeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageCRLSign
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, pub, key)
	if err != nil {
		return nil, err
	}
	if err := writeKey(filepath.Join(dir, authorityKey), key); err != nil {
		return nil, err
	}
	if err := writePEM(filepath.Join(dir, authorityCert), "CERTIFICATE", der, 0o644); err != nil {
		return nil, err
	}
	return OpenAuthority(dir)
}

// OpenAuthority opens the authority in a directory. The error is [fs.ErrNotExist] if this node has no authority.
func OpenAuthority(dir string) (*Authority, error) {
	cert, err := readCert(filepath.Join(dir, authorityCert))
	if err != nil {
		return nil, err
	}
	key, err := readKey(filepath.Join(dir, authorityKey))
	if err != nil {
		return nil, err
	}
	return &Authority{dir: dir, cert: cert, key: key}, nil
}

// Certificate returns the certificate of the authority in DER.
func (a *Authority) Certificate() []byte { return a.cert.Raw }

// Sign returns a certificate in DER for the key of a node, and records it for [Authority.Revoke]. The key is a public
// key in PKIX form.
func (a *Authority) Sign(node string, public []byte) ([]byte, error) {
	if err := nodename.Check(node); err != nil {
		return nil, err
	}
	pub, err := x509.ParsePKIXPublicKey(public)
	if err != nil {
		return nil, fmt.Errorf("the key of the node cannot be read: %w", err)
	}
	if _, ok := pub.(ed25519.PublicKey); !ok {
		return nil, errors.New("the key of the node is not an Ed25519 key")
	}
	tmpl := template(node)
	tmpl.DNSNames = []string{ServerName(node), CoordinatorName}
	tmpl.KeyUsage = x509.KeyUsageDigitalSignature
	tmpl.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	cert, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, pub, a.key)
	if err != nil {
		return nil, err
	}
	return cert, a.keep(cert, tmpl.SerialNumber)
}

func template(name string) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic("identity: no random numbers: " + err.Error()) // does not occur: Reader never fails
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-24 * time.Hour), NotAfter: now.Add(lifetime), // clocks of nodes can differ
	}
}

// Identity is the key of a node and its certificate.
type Identity struct {
	// Node is the name of the node.
	Node string
	// Dir is the directory of the files of the identity.
	Dir string

	key       ed25519.PrivateKey
	cert      *x509.Certificate
	authority *x509.Certificate
	keys      nodeKeys // of other nodes
	said      memory[signedStatement]
	heard     memory[*Statement]
	revoked   *Revocations
}

// NewKey returns the public key of a node in PKIX form. It creates a missing key in the directory.
func NewKey(dir string) (public []byte, err error) {
	key, err := readKey(filepath.Join(dir, nodeKey))
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(dir, 0o700); err == nil {
			_, key, err = ed25519.GenerateKey(rand.Reader)
		}
		if err == nil {
			err = writeKey(filepath.Join(dir, nodeKey), key)
		}
	}
	if err != nil {
		return nil, err
	}
	return x509.MarshalPKIXPublicKey(key.Public())
}

// Save stores the certificates of a node whose key [NewKey] made. The certificates are in DER.
func Save(dir string, cert, authority []byte) error {
	if err := writePEM(filepath.Join(dir, authorityCert), "CERTIFICATE", authority, 0o644); err != nil {
		return err
	}
	return writePEM(filepath.Join(dir, nodeCert), "CERTIFICATE", cert, 0o644)
}

// Open opens the identity of a node. The error is [fs.ErrNotExist] if the node has none.
func Open(dir string) (*Identity, error) {
	key, err := readKey(filepath.Join(dir, nodeKey))
	if err != nil {
		return nil, err
	}
	cert, err := readCert(filepath.Join(dir, nodeCert))
	if err != nil {
		return nil, err
	}
	authority, err := readCert(filepath.Join(dir, authorityCert))
	if err != nil {
		return nil, err
	}
	if pub, ok := cert.PublicKey.(ed25519.PublicKey); !ok || !pub.Equal(key.Public()) {
		return nil, fmt.Errorf("%s does not belong to %s", nodeCert, nodeKey)
	}
	if err := cert.CheckSignatureFrom(authority); err != nil {
		return nil, fmt.Errorf("the certificate of this node is not from the authority of the fleet: %w", err)
	}
	revoked, err := openRevocations(dir, authority)
	if err != nil {
		return nil, err
	}
	return &Identity{Node: cert.Subject.CommonName, Dir: dir, key: key, cert: cert, authority: authority,
		revoked: revoked}, nil
}

// Revocations returns the certificates that the authority has revoked. The TLS settings of the identity refuse them.
func (i *Identity) Revocations() *Revocations { return i.revoked }

// HasRevoked reports whether a certificate in DER is revoked. It returns false for a certificate that cannot be read.
func (i *Identity) HasRevoked(der []byte) bool {
	if i.revoked.DER() == nil {
		return false
	}
	cert, err := x509.ParseCertificate(der)
	return err == nil && i.revoked.Check(cert) != nil
}

// Revoked returns [ErrRevoked] if the node knows that its own certificate is revoked.
func (i *Identity) Revoked() error { return i.revoked.Check(i.cert) }

// Certificate returns the certificate of the node in DER.
func (i *Identity) Certificate() []byte { return i.cert.Raw }

// Fingerprint returns the SHA-256 of the certificate of the authority.
func (i *Identity) Fingerprint() [sha256.Size]byte { return sha256.Sum256(i.authority.Raw) }

func (i *Identity) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(i.authority)
	return pool
}

func (i *Identity) pair() tls.Certificate {
	return tls.Certificate{
		Certificate: [][]byte{i.cert.Raw, i.authority.Raw}, PrivateKey: crypto.PrivateKey(i.key), Leaf: i.cert,
	}
}

// Server returns the TLS settings of a server of the node. If strangers is true, a client without a certificate can
// connect; the server must then check each request.
func (i *Identity) Server(strangers bool) *tls.Config {
	auth := tls.RequireAndVerifyClientCert
	if strangers {
		auth = tls.VerifyClientCertIfGiven
	}
	return &tls.Config{Certificates: []tls.Certificate{i.pair()}, ClientCAs: i.pool(), ClientAuth: auth,
		MinVersion: tls.VersionTLS13, VerifyConnection: i.revoked.verify}
}

// Client returns the TLS settings of a connection to a server with a name, which is from [ServerName] or
// [CoordinatorName].
func (i *Identity) Client(server string) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{i.pair()}, RootCAs: i.pool(), ServerName: server,
		MinVersion: tls.VersionTLS13, VerifyConnection: i.revoked.verify}
}

func writeKey(path string, key ed25519.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(path, "PRIVATE KEY", der, 0o600)
}

// writePEM replaces a file, so that a reader never sees a part of it.
func writePEM(path, kind string, der []byte, mode fs.FileMode) error {
	return durable.ReplaceMode(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode)
}

func readPEM(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(b)
	if block == nil {
		return nil, fmt.Errorf("%s is not in PEM", path)
	}
	return block.Bytes, nil
}

func readCert(path string) (*x509.Certificate, error) {
	der, err := readPEM(path)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return cert, nil
}

func readKey(path string) (ed25519.PrivateKey, error) {
	der, err := readPEM(path)
	if err != nil {
		return nil, err
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	out, ok := key.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s is not an Ed25519 key", path)
	}
	return out, nil
}
