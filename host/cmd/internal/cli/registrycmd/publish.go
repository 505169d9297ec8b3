package registrycmd

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"toolhost.dev/host/admin/registries"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/screen"
)

func newKey(s *globals.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "key NAME",
		Short: "Create a key pair for signing plugins",
		Long: `Write a new private key to NAME.key and its public key to NAME.pub. Keep the private key secret.
Operators list the public key in a publisher block.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			private, public, fingerprint, err := registries.NewSigningKey()
			if err != nil {
				return err
			}
			for _, f := range []struct {
				path string
				text []byte
				mode os.FileMode
			}{{args[0] + ".key", private, 0o600}, {args[0] + ".pub", public, 0o644}} {
				if err := writeNew(s.Path(f.path), f.text, f.mode); err != nil {
					return err
				}
			}
			if s.JSON {
				return screen.PrintJSON(s.Out, map[string]string{
					"private": args[0] + ".key", "public": args[0] + ".pub", "fingerprint": fingerprint,
				})
			}
			fmt.Fprintf(s.Out, "%s.key  the private key: keep it secret\n%[1]s.pub  the public key, %s\n", screen.Printable(args[0]), fingerprint)
			return nil
		},
	}
}

// writeNew writes a new file. It returns an error if the file exists already.
func writeNew(path string, text []byte, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists, and a key is never replaced; choose another name, or move it away", path)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// publishFlags are the flags of "plugin publish".
type publishFlags struct {
	key, to, runtime, summary, sbom, provenance, catalog string
	platforms                                            []string
	unsigned                                             bool
}

func newPublish(s *globals.Settings) *cobra.Command {
	var f publishFlags
	c := &cobra.Command{
		Use:   "publish SOURCE:VERSION",
		Short: "Publish a plugin version to a registry",
		Long: `Pack the builds of a plugin, publish them as one version, and sign it. The build for this machine
is started once in a sandbox to read its tools. A build is a program, or a directory that contains
the program and other files. The program must have the plugin's name, which is the last part of
the source. A version that exists is never replaced.

With --catalog, a list of plugins is published instead, for toolhost plugin search.`,
		Example: `  toolhost plugin publish --key acme.key --platform linux/amd64=dist/amd64/weather \
    --platform linux/arm64=dist/arm64/weather registry.example.org/acme/weather:1.2.3`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return f.run(c, s, args[0]) },
	}
	c.Flags().StringVar(&f.key, "key", "", "private `KEY` that signs: a file, or env:NAME")
	c.Flags().BoolVar(&f.unsigned, "unsigned", false, "publish without a signature")
	c.Flags().StringArrayVar(&f.platforms, "platform", nil, "build for a platform, as `OS/ARCH=PATH`; repeat it for each")
	c.Flags().StringVar(&f.runtime, "runtime", "none", "program that the plugin needs, such as python>=3.11")
	c.Flags().StringVar(&f.summary, "summary", "", "description in one line")
	c.Flags().StringVar(&f.sbom, "sbom", "", "bill of materials to attach, in CycloneDX (`FILE`)")
	c.Flags().StringVar(&f.provenance, "provenance", "", "statement about the build to attach, in in-toto (`FILE`)")
	c.Flags().StringVar(&f.to, "to", "", "other `PLACE` than the registry: a directory such as file:///srv/mirror")
	c.Flags().StringVar(&f.catalog, "catalog", "", "publish this list of plugins (`FILE`)")
	return c
}

func (f *publishFlags) run(c *cobra.Command, s *globals.Settings, text string) error {
	ref, err := registries.ParseVersion(text)
	if err != nil {
		return err
	}
	place, err := registries.PlaceFor(ref, f.to)
	if err != nil {
		return err
	}
	p := registries.Publication{Reference: ref, Place: place, Runtime: f.runtime, Summary: f.summary,
		Builds: make(map[string]string), Attached: make(map[string]string)}
	switch {
	case f.key != "":
		if p.Key, err = registries.ReadSigningKey(keyPath(s, f.key)); err != nil {
			return err
		}
	case !f.unsigned || f.catalog != "":
		return errors.New("a version is published with a signature: add --key FILE. To make a key, run toolhost plugin key NAME")
	}
	m, err := registries.Publisher(s.Options())
	if err != nil {
		return err
	}
	m.Warn = func(text string) { warn(s.Err, text) }
	if f.catalog != "" {
		return m.PublishCatalog(c.Context(), ref, place, s.Path(f.catalog), p.Key)
	}
	if err := f.builds(s, &p, ref); err != nil {
		return err
	}
	out, err := m.Publish(c.Context(), p)
	if err != nil {
		return err
	}
	if s.JSON {
		return screen.PrintJSON(s.Out, out)
	}
	printPublished(s.Out, out)
	return nil
}

// keyPath returns the key that a flag names. It resolves the path of a file.
func keyPath(s *globals.Settings, key string) string {
	if strings.HasPrefix(key, "env:") {
		return key
	}
	return s.Path(key)
}

// builds adds the content of a version to p, according to the flags.
func (f *publishFlags) builds(s *globals.Settings, p *registries.Publication, ref registries.Version) error {
	if err := registries.CheckRuntime(f.runtime); err != nil {
		return err
	}
	if len(f.platforms) == 0 {
		return fmt.Errorf("no build is given: add --platform OS/ARCH=PATH for each platform, such as --platform linux/amd64=%s", filepath.Join("dist", ref.Base()))
	}
	for _, build := range f.platforms {
		platform, path, ok := strings.Cut(build, "=")
		if _, twice := p.Builds[platform]; !ok || path == "" || twice {
			return fmt.Errorf("--platform %q: write OS/ARCH=PATH, and each platform once", build)
		}
		p.Builds[platform] = s.Path(path)
	}
	for kind, file := range map[string]string{"application/vnd.cyclonedx+json": f.sbom,
		"application/vnd.in-toto+json": f.provenance} {
		if file != "" {
			p.Attached[kind] = s.Path(file)
		}
	}
	return nil
}

func printPublished(w io.Writer, out *registries.Published) {
	fmt.Fprintf(w, "Published %s\n  index:  %s\n", screen.Printable(out.Reference), out.Index)
	for _, platform := range slices.Sorted(maps.Keys(out.Platforms)) {
		fmt.Fprintf(w, "  %s:  %s\n", platform, screen.Size(out.Platforms[platform]))
	}
	fmt.Fprintln(w, "  tools: ", screen.Printable(strings.Join(out.Tools, ", ")))
	if len(out.Needs) > 0 {
		fmt.Fprintln(w, "  needs: ", screen.Printable(strings.Join(out.Needs, "; ")))
	}
	if out.Key == "" {
		fmt.Fprintln(w, "  NOT SIGNED")
		return
	}
	fmt.Fprintln(w, "  signed by", out.Key)
}

func newYank(s *globals.Settings) *cobra.Command {
	var key, reason, to string
	c := &cobra.Command{
		Use:   "yank SOURCE:VERSION",
		Short: "Withdraw a version of a plugin",
		Long: `Withdraw a published version, with a reason that operators see. Upgrades no longer select it. Where
it is locked, it stays usable. Only the key that signed the version can withdraw it.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			ref, err := registries.ParseVersion(args[0])
			if err != nil {
				return err
			}
			place, err := registries.PlaceFor(ref, to)
			if err != nil {
				return err
			}
			if key == "" || reason == "" {
				return errors.New("a withdrawal needs --key FILE and --reason TEXT")
			}
			signer, err := registries.ReadSigningKey(keyPath(s, key))
			if err != nil {
				return err
			}
			m, err := registries.Publisher(s.Options())
			if err != nil {
				return err
			}
			m.Warn = func(text string) { warn(s.Err, text) }
			if err := m.Yank(c.Context(), ref, place, signer, reason); err != nil {
				return err
			}
			fmt.Fprintf(s.Out, "%s is withdrawn.\n", screen.Printable(args[0]))
			return nil
		},
	}
	c.Flags().StringVar(&key, "key", "", "private `KEY` that signed the version: a file, or env:NAME")
	c.Flags().StringVar(&reason, "reason", "", "reason, which names the version to use (`TEXT`)")
	c.Flags().StringVar(&to, "to", "", "other `PLACE` than the registry, as for publish")
	return c
}
