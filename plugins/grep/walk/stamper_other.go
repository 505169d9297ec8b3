//go:build unix && !linux

package walk

import "toolhost.dev/plugins/grep/freshness"

// Stamper looks up entries of probes.
type Stamper struct{}

// At is [Probe.StampAt].
func (*Stamper) At(p Probe, name string) (freshness.Stamp, error) { return p.StampAt(name) }

// Mount tells of no mount.
func (Probe) Mount() (id uint64, ok bool) { return 0, false }
