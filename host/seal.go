package host

import "toolhost.dev/host/internal/engine"

// ErrSealed is the error of [Host.Unseal] for a text that is not valid.
var ErrSealed = engine.ErrSealed

// Seal encrypts and authenticates a value for its way through a client. Only [Host.Unseal] with the same purpose returns
// it, also in another process with the same state directory. If the host has no state directory, Seal returns an error.
func (h *Host) Seal(value, purpose []byte) (string, error) { return h.engine.Seal(value, purpose) }

// Unseal returns the value in a text of [Host.Seal]. It returns [ErrSealed] if the text was changed, sealed for another
// purpose, or sealed with a key that was deleted since.
func (h *Host) Unseal(text string, purpose []byte) ([]byte, error) {
	return h.engine.Unseal(text, purpose)
}
