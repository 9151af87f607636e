package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A mirror is a repository of the harness without files, which has what a remote has. Working trees borrow its objects
// in the place of having them twice: nothing that is in a mirror is ever taken out of it, but with all of it.

// Mirror opens the mirror in dir, or makes one. Whoever calls it must be alone with it: what a git left there that was
// killed is taken away. A mirror that cannot be opened is ErrDamaged.
func (g *Git) Mirror(ctx context.Context, dir string) (*Repo, error) {
	_, err := os.Lstat(filepath.Join(dir, ".git", "HEAD"))
	if errors.Is(err, fs.ErrNotExist) {
		return g.newMirror(ctx, dir)
	}
	if err == nil {
		_, err = Unlock(dir)
	}
	if err == nil {
		err = sweepPacks(filepath.Join(dir, ".git", "objects", "pack"))
	}
	var r *Repo
	if err == nil {
		r, err = g.openMirror(ctx, dir)
	}
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("mirror: %w: %w", ErrDamaged, err)
	}
	return r, err
}

// openMirror opens a repository whose refs are copies of the remote's only, so a fetch prunes them.
func (g *Git) openMirror(ctx context.Context, dir string) (*Repo, error) {
	r, err := g.Open(ctx, dir)
	if err != nil {
		return nil, err
	}
	r.prunes = true
	return r, nil
}

// newMirror makes an empty mirror. Objects that are there already stay.
func (g *Git) newMirror(ctx context.Context, dir string) (*Repo, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if _, err := g.run(ctx, call{args: []string{"init", "--quiet", "--template=", "--initial-branch=main", "--",
		dir}}); err != nil {
		return nil, err
	}
	return g.openMirror(ctx, dir)
}

// RepairMirror makes a damaged mirror one that lacks nothing once it was fetched into: packs that cannot be read are
// taken away, and all refs, so that the remote is asked for everything. What can be read stays, for those who borrow
// it.
func (g *Git) RepairMirror(ctx context.Context, dir string) (*Repo, error) {
	top := filepath.Join(dir, ".git")
	entries, err := os.ReadDir(top)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if e.Name() == "objects" && e.IsDir() {
			continue
		}
		if err := os.RemoveAll(filepath.Join(top, e.Name())); err != nil {
			return nil, err
		}
	}
	packs := filepath.Join(top, "objects", "pack")
	if err := sweepPacks(packs); err != nil {
		return nil, err
	}
	// What a mirror fetches comes as packs: anything else is not of it.
	others, err := os.ReadDir(filepath.Join(top, "objects"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range others {
		if e.Name() != "pack" {
			if err := os.RemoveAll(filepath.Join(top, "objects", e.Name())); err != nil {
				return nil, err
			}
		}
	}
	r, err := g.newMirror(ctx, dir)
	if err != nil {
		return nil, err
	}
	found, err := filepath.Glob(filepath.Join(packs, "*.idx"))
	if err != nil {
		return nil, err
	}
	for _, idx := range found {
		_, err := r.run(ctx, "verify-pack", "--", idx)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			if err := removePack(strings.TrimSuffix(idx, ".idx")); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

// Whole reports whether all that the refs of a mirror need is there and can be read; the error says why it is not
// known.
func (h *history) Whole(ctx context.Context) (bool, error) {
	found, err := filepath.Glob(filepath.Join(h.Objects(), "pack", "*.idx"))
	if err != nil {
		return false, err
	}
	looks := [][]string{{"fsck", "--connectivity-only", "--no-dangling", "--no-progress", "--no-reflogs"}}
	for _, idx := range found {
		looks = append(looks, []string{"verify-pack", "--", idx})
	}
	for _, args := range looks {
		_, err := h.run(ctx, args...)
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if _, said := errors.AsType[*Error](err); err != nil {
			if said {
				err = nil
			}
			return false, err
		}
	}
	return true, nil
}

// Packs are the files of a mirror's objects by name, with their sizes in bytes.
func (l *layout) Packs() (map[string]int64, error) {
	entries, err := os.ReadDir(filepath.Join(l.Objects(), "pack"))
	if err != nil {
		return nil, err
	}
	all := map[string]int64{}
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); ext != ".pack" && ext != ".idx" {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		all[e.Name()] = info.Size()
	}
	return all, nil
}

// sweepPacks takes away what a transfer that was killed left: temporary files, and packs without an index, which is
// written last. What is there can be read and not written, whatever somebody made of its mode.
func sweepPacks(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		at := filepath.Join(dir, e.Name())
		base, isPack := strings.CutSuffix(at, ".pack")
		if isPack {
			_, err := os.Lstat(base + ".idx")
			isPack = errors.Is(err, fs.ErrNotExist)
		}
		if strings.HasPrefix(e.Name(), "tmp_") || isPack || strings.HasSuffix(e.Name(), ".lock") {
			if err := os.RemoveAll(at); err != nil {
				return err
			}
			continue
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && info.Mode().Perm() != 0o444 {
			if err := os.Chmod(at, 0o444); err != nil {
				return err
			}
		}
	}
	return nil
}

// removePack takes a pack with all that belongs to it away.
func removePack(base string) error {
	for _, ext := range []string{".idx", ".pack", ".rev", ".bitmap", ".keep", ".mtimes"} {
		if err := os.Remove(base + ext); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Objects is the directory of the repository's objects.
func (l *layout) Objects() string { return filepath.Join(l.common, "objects") }

// CloneAlternates makes dir, which must be empty or not be there, a repository that has the refs of a mirror's remote
// and none of its objects: it reads those of the mirror. Nothing is checked out.
func (g *Git) CloneAlternates(ctx context.Context, mirror *Repo, s Source, dir string) (*Repo, error) {
	rem, _, err := g.check(s)
	if err != nil {
		return nil, err
	}
	if !s.empty(dir) {
		return nil, fmt.Errorf("share objects with %s: %w (choose an empty directory)", dir, ErrNotEmpty)
	}
	r, err := g.Init(ctx, dir, "main")
	if err != nil {
		return nil, err
	}
	if r.format != mirror.format {
		return nil, fmt.Errorf("share objects of a mirror with ids of %s: %w (use a full copy)", mirror.format, ErrHostile)
	}
	if err := r.origin(rem.url); err != nil {
		return nil, err
	}
	refs, err := mirror.farRefs(ctx)
	if err != nil {
		return nil, err
	}
	var packed strings.Builder
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		fmt.Fprintf(&packed, "%s %s\n", refs[name], name)
	}
	if err := os.WriteFile(filepath.Join(r.common, "packed-refs"), []byte(packed.String()), 0o644); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(r.common, "objects", "info"), 0o755); err != nil {
		return nil, err
	}
	r.lender = mirror.Objects()
	// For those who use git in the tree. Here it is only looked at whether it is still this.
	return r, os.WriteFile(r.alternates(), []byte(r.lender+"\n"), 0o644)
}

// OpenBorrowing opens a repository that Borrow made of a mirror whose objects are in that directory. Where the
// repository names another one it is ErrHostile; that it names none any more does not matter.
func (g *Git) OpenBorrowing(ctx context.Context, dir, objects string) (*Repo, error) {
	if info, err := os.Lstat(objects); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%s shares objects with %s: %w: %w (call git_prepare again with the url to fetch them again)",
			dir, objects, ErrDamaged, errors.Join(err, errNoLender))
	}
	return g.openWith(ctx, dir, objects)
}

var errNoLender = errors.New("the objects are missing")

// Follow makes what is known of the remote what a mirror knows of it; what the mirror knows not stays.
func (r *Repo) Follow(ctx context.Context, mirror *Repo) error {
	there, err := mirror.farRefs(ctx)
	if err != nil {
		return err
	}
	here, err := r.farRefs(ctx)
	if err != nil {
		return err
	}
	var moves strings.Builder
	for _, name := range slices.Sorted(maps.Keys(there)) {
		if here[name] != there[name] {
			fmt.Fprintf(&moves, "update %s\x00%s\x00\x00", name, there[name])
		}
	}
	if moves.Len() == 0 {
		return nil
	}
	_, err = r.do(ctx, call{args: []string{"update-ref", "-z", "--stdin"}, stdin: strings.NewReader(moves.String())})
	return err
}

// Own makes the repository one that borrows nothing: it gets a copy of all objects that it needs.
func (r *Repo) Own(ctx context.Context) error {
	if r.lender == "" {
		return nil
	}
	if _, err := r.do(ctx, call{args: []string{"repack", "-a", "-d", "-q", "--no-write-bitmap-index"},
		bound: true}); err != nil {
		return err
	}
	if err := os.Remove(r.alternates()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	r.lender = ""
	return nil
}

// farRefs are the refs that came of the remote, with the objects that they are at.
func (h *history) farRefs(ctx context.Context) (map[string]string, error) {
	out, err := h.run(ctx, "for-each-ref", "--format=%(objectname) %(refname)", "refs/remotes/origin", "refs/tags")
	if err != nil {
		return nil, err
	}
	refs := map[string]string{}
	for l := range strings.SplitSeq(out, "\n") {
		if id, name, ok := strings.Cut(l, " "); ok && fullID.MatchString(id) {
			refs[name] = id
		}
	}
	return refs, nil
}

// alternates is the file in which a repository says from where it borrows.
func (l *layout) alternates() string { return filepath.Join(l.common, "objects", "info", "alternates") }

// borrows refuses a repository that says it borrows from elsewhere than it may, and a lender that borrows itself.
func (l *layout) borrows() error {
	info := filepath.Join(l.common, "objects", "info")
	if d, err := os.Lstat(info); err == nil && !d.IsDir() {
		return fmt.Errorf("%s is not a directory: %w (remove it)", info, ErrHostile)
	}
	for _, name := range []string{"alternates", "http-alternates"} {
		at := filepath.Join(info, name)
		if _, err := os.Lstat(at); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if name == "alternates" && l.lender != "" {
			text, err := readNoFollow(at, maxPointer)
			if err == nil && string(text) == l.lender+"\n" {
				continue
			}
		}
		return fmt.Errorf("%s shares objects with other repositories (objects/info/%s): %w (repack it and remove that file)",
			l.common, name, ErrHostile)
	}
	if l.lender == "" {
		return nil
	}
	for _, name := range []string{"alternates", "http-alternates"} {
		if _, err := os.Lstat(filepath.Join(l.lender, "info", name)); err == nil {
			return fmt.Errorf("%s shares objects with another repository itself: %w (remove it, it is created again)", l.lender,
				ErrHostile)
		}
	}
	return nil
}

// alternate is a directory as git reads it in its environment, where a colon parts two.
func alternate(dir string) string {
	if !strings.ContainsAny(dir, ":\"\\") {
		return dir
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(dir) + `"`
}
