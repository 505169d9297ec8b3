package scaffold

import "toolhost.dev/host/internal/manifest"

// ManifestFile is the name of the manifest in a plugin's directory.
const ManifestFile = manifest.File

// Manifest describes a plugin and its sources.
type Manifest = manifest.Manifest

// Needs lists the permissions that a plugin requires.
type Needs = manifest.Needs

// ReadManifest reads and validates the manifest in a plugin's directory.
func ReadManifest(dir string) (*Manifest, error) { return manifest.Read(dir) }
