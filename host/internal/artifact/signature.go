package artifact

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
)

// TypeSignature is the media type of a signature.
const TypeSignature = "application/vnd.dev.sigstore.bundle.v0.3+json"

// The predicates of statements: what a signature states about a digest.
const (
	// Signed states that the publisher made the artifact. cosign writes this predicate.
	Signed = "https://sigstore.dev/cosign/sign/v1"
	// Yanked states that the publisher withdraws the artifact.
	Yanked = "https://toolhost.dev/yank/v1"
)

const (
	statementType = "https://in-toto.io/Statement/v1"
	payloadType   = "application/vnd.in-toto+json"
)

type statement struct {
	Type          string          `json:"_type"`
	Subject       []subject       `json:"subject"`
	PredicateType string          `json:"predicateType"`
	Predicate     json.RawMessage `json:"predicate,omitempty"`
}

type subject struct {
	Name        string            `json:"name,omitempty"`
	Digest      map[string]string `json:"digest"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type bundle struct {
	MediaType string   `json:"mediaType"`
	Material  material `json:"verificationMaterial"`
	Envelope  envelope `json:"dsseEnvelope"`
}

type material struct {
	PublicKey struct {
		Hint string `json:"hint,omitempty"`
	} `json:"publicKey"`
}

type envelope struct {
	Payload     []byte `json:"payload"`
	PayloadType string `json:"payloadType"`
	Signatures  []sig  `json:"signatures"`
}

type sig struct {
	Sig []byte `json:"sig"`
}

// encoded returns the bytes that DSSE signs.
func encoded(payload []byte) []byte {
	return append(fmt.Appendf(nil, "DSSEv1 %d %s %d ", len(payloadType), payloadType, len(payload)), payload...)
}

// Sign returns a signature of a SHA-256 in hexadecimal. The predicate type is [Signed] or [Yanked], and predicate is
// the JSON object of this type.
func Sign(key crypto.Signer, sum, predicateType string, predicate json.RawMessage) ([]byte, error) {
	payload, err := json.Marshal(statement{
		Type: statementType, Subject: []subject{{Digest: map[string]string{"sha256": sum}}},
		PredicateType: predicateType, Predicate: predicate,
	})
	if err != nil {
		return nil, err
	}
	message, opts := encoded(payload), crypto.SignerOpts(crypto.Hash(0))
	if _, ec := key.(*ecdsa.PrivateKey); ec {
		h := sha256.Sum256(message)
		message, opts = h[:], crypto.SHA256
	}
	raw, err := key.Sign(rand.Reader, message, opts)
	if err != nil {
		return nil, err
	}
	der, err := derOf(key.Public())
	if err != nil {
		return nil, err
	}
	hint := sha256.Sum256(der)
	b := bundle{MediaType: TypeSignature,
		Envelope: envelope{Payload: payload, PayloadType: payloadType, Signatures: []sig{{raw}}}}
	b.Material.PublicKey.Hint = base64.StdEncoding.EncodeToString(hint[:])
	return json.Marshal(b)
}

// ErrNotSigned reports that none of the keys made a signature.
var ErrNotSigned = errors.New("no signature by this key over this digest")

// Verify returns the key that made a signature of a SHA-256 in hexadecimal, and the predicate. The error is
// [ErrNotSigned] if none of the keys signed this digest with this predicate type.
func Verify(raw []byte, keys []Key, sum, predicateType string) (Key, json.RawMessage, error) {
	var b bundle
	if err := json.Unmarshal(raw, &b); err != nil {
		return Key{}, nil, ErrNotSigned
	}
	if b.MediaType != TypeSignature || b.Envelope.PayloadType != payloadType || len(b.Envelope.Signatures) != 1 {
		return Key{}, nil, ErrNotSigned
	}
	message := encoded(b.Envelope.Payload)
	for _, k := range keys {
		if !k.verifies(message, b.Envelope.Signatures[0].Sig) {
			continue
		}
		var st statement // parsed only now, because the payload cannot be trusted before its signature is verified
		if json.Unmarshal(b.Envelope.Payload, &st) != nil || st.Type != statementType ||
			st.PredicateType != predicateType {
			return Key{}, nil, ErrNotSigned
		}
		for _, s := range st.Subject {
			if s.Digest["sha256"] == sum {
				return k, st.Predicate, nil
			}
		}
	}
	return Key{}, nil, ErrNotSigned
}

// KeyHint returns the fingerprint of the key that a signature names. It proves nothing, but helps to explain a
// signature by an unknown key. It returns "" if the signature names no key.
func KeyHint(raw []byte) string {
	var b bundle
	if json.Unmarshal(raw, &b) != nil {
		return ""
	}
	der, err := base64.StdEncoding.DecodeString(b.Material.PublicKey.Hint)
	if err != nil || len(der) != sha256.Size {
		return ""
	}
	return fingerprintOf(der)
}

func (k Key) verifies(message, sig []byte) bool {
	switch pub := k.Public.(type) {
	case *ecdsa.PublicKey:
		h := sha256.Sum256(message)
		return ecdsa.VerifyASN1(pub, h[:], sig)
	case ed25519.PublicKey:
		return ed25519.Verify(pub, message, sig)
	}
	return false
}
