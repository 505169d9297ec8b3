package sandbox

import "os"

// Container describes the container in which this process runs. A nil Container means that the process runs in no
// container.
type Container struct {
	// Engine is "podman", "docker", "kubernetes" or the name that another engine reports.
	Engine string `json:"engine"`
	// Remedy describes how to make the engine permit the namespaces of the sandbox.
	Remedy string `json:"remedy"`
}

// FindContainer returns the container in which this process runs, as its engine reports it.
func FindContainer() *Container {
	exists := func(path string) bool { _, err := os.Stat(path); return err == nil }
	engine := os.Getenv("container")
	switch {
	case os.Getenv("KUBERNETES_SERVICE_HOST") != "":
		engine = "kubernetes"
	case exists("/run/.containerenv"):
		engine = "podman"
	case exists("/.dockerenv"):
		engine = "docker"
	case engine == "":
		return nil
	}
	remedy, known := map[string]string{
		"podman":     "start it with --security-opt unmask=ALL",
		"docker":     "start it with --security-opt systempaths=unconfined, and with profiles of seccomp and AppArmor that permit user namespaces and mounts",
		"kubernetes": "set procMount: Unmasked and hostUsers: false, and a seccomp profile that permits user namespaces and mounts",
	}[engine]
	if !known {
		remedy = "let it permit user namespaces, mounts and a new /proc"
	}
	return &Container{Engine: engine, Remedy: remedy}
}
