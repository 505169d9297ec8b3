//go:build renamed

package sdk

// adapt renames a plugin and its tools. The tests of the host build the bundled plugins with the tag "renamed". They
// then are plugins of others with the same roles, and show that the host knows no tool by its name.
func adapt(p Plugin) Plugin {
	p.Name = "my-" + p.Name
	for i := range p.Tools {
		p.Tools[i].def.Name = "my_" + p.Tools[i].def.Name
	}
	return p
}
