//go:build unix && !linux

package walk

import "toolhost.dev/plugins/grep/freshness"

// Stamper returns stamps of entries.
type Stamper struct{}

// At returns what [Probe.StampAt] returns.
func (*Stamper) At(p Probe, name string) (freshness.Stamp, error) { return p.StampAt(name) }

// Mount returns false, because mounts are not supported on this system.
func (Probe) Mount() (id uint64, ok bool) { return 0, false }
