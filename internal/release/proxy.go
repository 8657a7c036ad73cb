package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// writeProxy writes the released modules, as the last commit has them, into a folder that the go
// command takes as a module proxy by its file URL.
func (r *release) writeProxy(dir string) error {
	when, err := output(command(r.top, "git", "log", "-1", "--format=%cI"))
	if err != nil {
		return err
	}
	for _, folder := range r.released {
		if err := r.writeModule(dir, folder, when); err != nil {
			return fmt.Errorf("%s: %w", modulePath(folder), err)
		}
	}
	return nil
}

// writeModule writes the four files of one module.
func (r *release) writeModule(dir, folder, when string) error {
	m := module.Version{Path: modulePath(folder), Version: r.version}
	at := filepath.Join(dir, filepath.FromSlash(m.Path), "@v") // no capitals, nothing to escape
	if err := os.MkdirAll(at, 0o777); err != nil {
		return err
	}
	mod, err := command(r.top, "git", "show", "HEAD:"+strings.TrimPrefix(folder+"/go.mod", "./")).
		Output()
	if err != nil {
		return err
	}
	if err := r.checkModFile(folder+"/go.mod", mod); err != nil {
		return err
	}
	info, err := json.Marshal(map[string]string{"Version": m.Version, "Time": when})
	if err != nil {
		return err
	}
	var files bytes.Buffer
	err = zip.CreateFromVCS(&files, m, r.top, "HEAD", strings.TrimPrefix(folder, "."))
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{"list": []byte(m.Version + "\n"),
		m.Version + ".info": info, m.Version + ".mod": mod, m.Version + ".zip": files.Bytes()} {
		if err := os.WriteFile(filepath.Join(at, name), text, 0o666); err != nil {
			return err
		}
	}
	return nil
}
