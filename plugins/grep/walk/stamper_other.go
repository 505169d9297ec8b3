//go:build unix && !linux

package walk

import "toolhost.dev/plugins/grep/freshness"

// Stamper returns stamps of entries.
type Stamper struct{}

// At returns the stamp of an entry, like [Probe.StampAt].
func (*Stamper) At(p Probe, name string) (freshness.Stamp, error) { return p.StampAt(name) }

// Mount always returns false, because this system reports no mount IDs.
func (Probe) Mount() (id uint64, ok bool) { return 0, false }
