package scaffold

import "toolhost.dev/host/internal/manifest"

// ManifestFile is the name of the manifest in a plugin's directory.
const ManifestFile = manifest.File

// Manifest describes the sources of a plugin.
type Manifest = manifest.Manifest

// Needs are the abilities without which a plugin does not work.
type Needs = manifest.Needs

// ReadManifest reads and checks the manifest in a plugin's directory.
func ReadManifest(dir string) (*Manifest, error) { return manifest.Read(dir) }
