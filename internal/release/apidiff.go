package main

import (
	"fmt"
	"os"
	"path/filepath"
)

const diffTool = "golang.org/x/exp/cmd/apidiff@v0.0.0-20261113113407-e3970619a1a4"

// compareAPI prints how the API of each released module changed since a tag or commit.
func (r *release) compareAPI(ref string) error {
	dir, err := os.MkdirTemp("", "rondo-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	before := filepath.Join(dir, "before")
	if _, err := output(command(dir, "git", "clone", "-q", r.top, before)); err != nil {
		return err
	}
	if _, err := output(command(before, "git", "checkout", "-q", ref)); err != nil {
		return err
	}
	for _, folder := range r.released {
		old, path := filepath.Join(dir, "old"), modulePath(folder)
		fmt.Printf("%s since %s:\n", path, ref)
		if _, err := os.Stat(filepath.Join(before, folder, "go.mod")); err != nil {
			fmt.Println("- a new module")
			continue
		}
		_, err := output(command(filepath.Join(before, folder), "go", "run", diffTool, "-m", "-w", old,
			path))
		if err != nil {
			return err
		}
		changes, err := output(command(filepath.Join(r.top, folder), "go", "run", diffTool, "-m", old,
			path))
		if err != nil {
			return err
		}
		fmt.Println(changes)
	}
	return nil
}
