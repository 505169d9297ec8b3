package artifact

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"os"
	"strings"
	"testing"
)

// cosignSum is the digest whose signature by cosign is in testdata.
const cosignSum = "d4e292ed43af9672134878bc8f3c16dcdb3f6bda95e0e24f84d8ee295422259e"

// TestCosign verifies a signature that "cosign sign --key" of version 3.0.2 made.
func TestCosign(t *testing.T) {
	raw, err := os.ReadFile("testdata/cosign-bundle.json")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/cosign.pub")
	if err != nil {
		t.Fatal(err)
	}
	key, err := ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	if by, _, err := Verify(raw, []Key{key}, cosignSum, Signed); err != nil || by.Fingerprint != key.Fingerprint {
		t.Error(by, err)
	}
	if got := KeyHint(raw); got != "" && got != key.Fingerprint {
		t.Error(got, key.Fingerprint)
	}
	if _, _, err := Verify(raw, []Key{key}, strings.Repeat("0", 64), Signed); !errors.Is(err, ErrNotSigned) {
		t.Errorf("another digest: %v", err)
	}
}

// TestSignatures signs with both kinds of keys, and verifies the signatures. A changed signature must not be accepted.
func TestSignatures(t *testing.T) {
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	private, public, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	ec, err := ParseSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	other, err := ParseKey(public)
	if err != nil {
		t.Fatal(err)
	}
	sum := strings.Repeat("ab", 32)
	for _, signer := range []crypto.Signer{edwards, ec} {
		key, err := KeyOf(signer)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := Sign(signer, sum, Signed, json.RawMessage("{}"))
		if err != nil {
			t.Fatal(err)
		}
		if by, _, err := Verify(raw, []Key{other, key}, sum, Signed); err != nil || by.Fingerprint != key.Fingerprint || KeyHint(raw) != key.Fingerprint {
			t.Error(by, err)
		}
		if _, _, err := Verify(raw, []Key{key}, sum, Yanked); !errors.Is(err, ErrNotSigned) {
			t.Errorf("a signature counts as a withdrawal: %v", err)
		}
		if _, _, err := Verify(raw, nil, sum, Signed); !errors.Is(err, ErrNotSigned) {
			t.Error(err)
		}
		var b bundle
		if err := json.Unmarshal(raw, &b); err != nil {
			t.Fatal(err)
		}
		for i := range b.Envelope.Payload {
			changed := b
			changed.Envelope.Payload = bytes.Clone(b.Envelope.Payload)
			changed.Envelope.Payload[i] ^= 1
			text, err := json.Marshal(changed)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := Verify(text, []Key{key}, sum, Signed); !errors.Is(err, ErrNotSigned) {
				t.Fatalf("byte %d was changed: %v", i, err)
			}
		}
	}
}

// TestOtherKeys checks that each unsupported kind of key is refused with a reason.
func TestOtherKeys(t *testing.T) {
	weak, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	curve, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for want, key := range map[string]crypto.Signer{"use P-256 or Ed25519": weak, "P-384": curve} {
		der, err := x509.MarshalPKIXPublicKey(key.Public())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseKey(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})); err == nil || !strings.Contains(err.Error(), want) {
			t.Error(err)
		}
	}
	private, public, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	for want, text := range map[string][]byte{"a public key is needed": private, "not a single public key": append(public, 'x')} {
		if _, err := ParseKey(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Error(err)
		}
	}
	if _, err := ParseSigner(public); err == nil || !strings.Contains(err.Error(), "toolhost plugin key") {
		t.Error(err)
	}
}
