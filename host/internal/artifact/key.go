package artifact

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
)

// Key is a public key.
type Key struct {
	Public crypto.PublicKey
	// Fingerprint identifies the key, such as "SHA256:az0H…".
	Fingerprint string
}

// PEM returns the key in PEM.
func (k Key) PEM() ([]byte, error) {
	der, err := derOf(k.Public)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}

func derOf(pub crypto.PublicKey) ([]byte, error) { return x509.MarshalPKIXPublicKey(pub) }

func fingerprintOf(sum []byte) string { return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum) }

// KeyOf returns the public key of a signer.
func KeyOf(signer crypto.Signer) (Key, error) { return newKey(signer.Public()) }

func newKey(pub crypto.PublicKey) (Key, error) {
	if ec, ok := pub.(*ecdsa.PublicKey); ok && ec.Curve != elliptic.P256() {
		return Key{}, fmt.Errorf("the key is on the curve %s; use P-256 or Ed25519", ec.Params().Name)
	}
	switch pub.(type) {
	case *ecdsa.PublicKey, ed25519.PublicKey:
	default:
		return Key{}, fmt.Errorf("the key has the type %T; use P-256 or Ed25519", pub)
	}
	der, err := derOf(pub)
	if err != nil {
		return Key{}, err
	}
	sum := sha256.Sum256(der)
	return Key{pub, fingerprintOf(sum[:])}, nil
}

// ParseKey reads a public key in PEM.
func ParseKey(text []byte) (Key, error) {
	block, rest := pem.Decode(text)
	switch {
	case block == nil || len(bytes.TrimSpace(rest)) > 0:
		return Key{}, errors.New("this is not a single public key in PEM; it must begin with -----BEGIN PUBLIC KEY-----")
	case block.Type != "PUBLIC KEY":
		return Key{}, fmt.Errorf("this is a %s; a public key is needed, which begins with -----BEGIN PUBLIC KEY-----", block.Type)
	}
	pub, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return Key{}, fmt.Errorf("the public key cannot be read: %w", err)
	}
	return newKey(pub)
}

// ParseSigner reads a private key in PEM, in the form PKCS #8.
func ParseSigner(text []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, errors.New("this is not a private key that begins with -----BEGIN PRIVATE KEY-----; make one with toolhost plugin key NAME")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the private key cannot be read: %w", err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("the key has the type %T; use P-256 or Ed25519", key)
	}
	if _, err := KeyOf(signer); err != nil {
		return nil, err
	}
	return signer, nil
}

// NewKey returns a new P-256 key pair in PEM.
func NewKey() (private, public []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	k, err := KeyOf(key)
	if err != nil {
		return nil, nil, err
	}
	public, err = k.PEM()
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), public, err
}
