package generation

import (
	"toolhost.dev/host/internal/policy"
)

// Stages returns the names of the stages of a generation.
func (b *Builder) Stages(g *Generation) (names []string) {
	for _, s := range b.stages(g, b.core(g, nil, policy.Rules{})) {
		if s.Wrap != nil {
			names = append(names, s.Name)
		}
	}
	return names
}
