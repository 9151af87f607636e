package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// BaseLimits bound what of a working tree is not committed and goes into a Base. A field of 0 means its default.
type BaseLimits struct {
	// Bytes and Files of changed and new files: 64 MiB, 5000.
	Bytes int64
	Files int
}

// Base is a working tree as it was: the commit that was checked out, with what was changed and added since.
type Base struct {
	// Root is the top of the working tree, Branch the one that was checked out, Head its commit; both may be empty.
	Root   string `json:"root"`
	Branch string `json:"branch,omitempty"`
	Head   string `json:"head,omitempty"`
	// Commit is Head, or a commit after it with what was not committed.
	Commit string `json:"commit"`
	// Objects is the directory of objects that the history up to Head is read from; empty where the pack has all of it.
	Objects string `json:"objects,omitempty"`
	// Format of ids, and the commits at which the history is cut off, as git's file shallow has them.
	Format  string `json:"format"`
	Shallow string `json:"shallow,omitempty"`
	// Pack says that there is one: what of Commit is not in Objects.
	Pack bool `json:"pack"`
	// Changed is how many files differ from Head. Secret are files left out for their names, Nested repositories and
	// submodules in the tree.
	Changed int      `json:"changed"`
	Secret  []string `json:"secret,omitempty"`
	Nested  []string `json:"nested,omitempty"`
}

// baseBranch is the name under which a pack has the commit of a Base.
const baseBranch = "base"

// Base takes the working tree as it is, without a change to it or to its repository, and writes what is needed beside
// its objects: w gets nothing where that is nothing. Files that git ignores are left out, and files that are not
// committed and whose names say that they hold secrets, but for those whose paths from the root are named in with.
// whole puts the history into the pack too. ErrUnderway where files are in conflict, ErrTooLarge above the limits.
func (l *Local) Base(ctx context.Context, w io.Writer, with []string, whole bool, limits BaseLimits) (b Base,
	err error) {
	dir, err := os.MkdirTemp(l.g.cfg.Temp, "inspan-base-")
	if err != nil {
		return b, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s := &baseTaker{l: l, dir: filepath.Join(dir, "r"), with: with, limits: limits}
	if b, err = s.begin(ctx, whole); err != nil {
		return b, err
	}
	tree, err := s.tree(ctx, &b)
	if err != nil {
		return b, err
	}
	if err := s.commit(ctx, &b, tree); err != nil {
		return b, err
	}
	args := []string{"bundle", "create", "--quiet", "-", "refs/heads/" + baseBranch}
	if b.Objects != "" && b.Head != "" {
		args = append(args, "--not", b.Head)
	}
	if b.Pack = b.Objects == "" || b.Commit != b.Head; b.Pack {
		_, err = l.g.run(ctx, call{args: args, gitDir: s.dir, env: s.env, stdout: w, limit: l.g.cfg.Limits.Pack})
	}
	return b, err
}

// baseTaker works in a repository of its own, which reads the objects of the person's.
type baseTaker struct {
	l      *Local
	dir    string
	env    []string
	with   []string
	limits BaseLimits
	head   string
}

func (s *baseTaker) run(ctx context.Context, stdin string, args ...string) (string, error) {
	return s.l.g.run(ctx, call{args: args, gitDir: s.dir, env: s.env, stdin: strings.NewReader(stdin)})
}

func (s *baseTaker) line(ctx context.Context, args ...string) (string, error) {
	out, err := s.run(ctx, "", args...)
	return strings.TrimSpace(out), err
}

// begin makes the repository.
func (s *baseTaker) begin(ctx context.Context, whole bool) (b Base, err error) {
	l := s.l
	b.Root = l.Root
	if b.Branch, b.Head, err = l.Branch(ctx); err != nil {
		return b, err
	}
	s.head = b.Head
	format, err := l.ask(ctx, "rev-parse", "--show-object-format")
	if b.Format = strings.TrimSpace(format); err != nil {
		return b, err
	}
	if b.Format != "sha1" {
		return b, fmt.Errorf("%s has ids of %s: %w (only sha1 can be worked on)", l.Root, b.Format, ErrProtocol)
	}
	settings, err := l.settings(ctx)
	if err != nil {
		return b, err
	}
	if _, err := l.g.run(ctx, call{args: []string{"init", "--quiet", "--bare", "--template=", "--", s.dir}}); err != nil {
		return b, err
	}
	shallow, err := readNoFollow(filepath.Join(l.common, "shallow"), maxConfig)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return b, err
	}
	b.Shallow = string(shallow)
	if b.Shallow != "" {
		if err := os.WriteFile(filepath.Join(s.dir, "shallow"), shallow, 0o600); err != nil {
			return b, err
		}
	}
	objects, alone := l.Objects()
	if !whole && !alone {
		b.Objects = objects
	} else if b.Shallow != "" {
		return b, fmt.Errorf("%s has a history that is cut off and cannot be shared: %w (git fetch --unshallow)", l.Root,
			ErrNothing)
	}
	return b, s.files(settings, objects)
}

// files writes what the repository has beside objects: the rules of what is ignored, and the index.
func (s *baseTaker) files(settings []string, objects string) error {
	info := filepath.Join(s.dir, "info")
	if err := os.MkdirAll(info, 0o700); err != nil {
		return err
	}
	exclude, err := readNoFollow(filepath.Join(s.l.common, "info", "exclude"), maxConfig)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	exclude = append(exclude, "\n"+strings.Join(s.l.g.cfg.Ignore, "\n")+"\n"...)
	if err := os.WriteFile(filepath.Join(info, "exclude"), exclude, 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(info, "attributes"), []byte("* -filter !diff !merge -ident\n"),
		0o600); err != nil {
		return err
	}
	s.env = append(settings, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+alternate(objects), "GIT_WORK_TREE="+s.l.Root,
		"GIT_INDEX_FILE="+filepath.Join(s.dir, "index"))
	return nil
}

// tree makes the tree of the working tree as it is.
func (s *baseTaker) tree(ctx context.Context, b *Base) (string, error) {
	there, err := s.l.index(s.dir)
	if err == nil && !there && b.Head != "" {
		_, err = s.run(ctx, "", "read-tree", b.Head)
	}
	if err != nil {
		return "", err
	}
	if open, err := s.list(ctx, "ls-files", "--unmerged", "-z"); err != nil || len(open) > 0 {
		if err == nil {
			err = fmt.Errorf("%s has files in conflict: %w (resolve them, or end what is under way with --abort)", s.l.Root,
				ErrUnderway)
		}
		return "", err
	}
	changed, err := s.list(ctx, "diff-files", "--name-only", "--ignore-submodules=all", "-z")
	if err != nil {
		return "", err
	}
	added, err := s.list(ctx, "ls-files", "--others", "--exclude-standard", "-z")
	if err != nil {
		return "", err
	}
	take, err := s.sort(b, append(changed, added...))
	if err != nil {
		return "", err
	}
	if _, err := s.run(ctx, nulls(take), "update-index", "--add", "--remove", "-z", "--stdin"); err != nil {
		return "", err
	}
	if err := s.withhold(ctx, b); err != nil {
		return "", err
	}
	return s.line(ctx, "write-tree")
}

// list gives the entries of a command's output that ends each with a NUL.
func (s *baseTaker) list(ctx context.Context, args ...string) ([]string, error) {
	out, err := s.run(ctx, "", args...)
	if err != nil || out == "" {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(out, "\x00"), "\x00"), nil
}

func nulls(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return strings.Join(list, "\x00") + "\x00"
}

// sort gives the paths that are taken, and notes those that are not.
func (s *baseTaker) sort(b *Base, paths []string) (take []string, err error) {
	most, files := s.limits.Bytes, s.limits.Files
	if most <= 0 {
		most = 64 << 20
	}
	if files <= 0 {
		files = 5000
	}
	var total int64
	for _, p := range append(paths, s.with...) {
		if strings.HasSuffix(p, "/") {
			b.Nested = append(b.Nested, strings.TrimSuffix(p, "/"))
			continue
		}
		if Secret(p) && !slices.Contains(s.with, p) {
			b.Secret = append(b.Secret, p)
			continue
		}
		info, err := os.Lstat(filepath.Join(s.l.Root, filepath.FromSlash(p)))
		switch {
		case err == nil && info.Mode()&(fs.ModeDir|fs.ModeNamedPipe|fs.ModeSocket|fs.ModeDevice|fs.ModeIrregular) != 0:
			continue
		case err == nil:
			total += info.Size()
		case slices.Contains(s.with, p):
			return nil, fmt.Errorf("%s: %w (name files by their paths from %s)", p, err, s.l.Root)
		}
		if take = append(take, p); total > most || len(take) > files {
			return nil, fmt.Errorf("%s: more than %d MiB or %d files are not committed: %w (commit them, or name what is not part of the project in .gitignore; the last was %s)",
				s.l.Root, most>>20, files, ErrTooLarge, short(p))
		}
	}
	return take, nil
}

// withhold takes secrets out of the index that somebody added to it and did not commit. A secret that is committed
// stays as it is there.
func (s *baseTaker) withhold(ctx context.Context, b *Base) error {
	base := b.Head
	if base == "" {
		var err error
		if base, err = s.emptyTree(ctx); err != nil {
			return err
		}
	}
	staged, err := s.list(ctx, "diff-index", "--cached", "--name-only", "--ignore-submodules=all", "-z", base)
	if err != nil {
		return err
	}
	var info strings.Builder
	for _, p := range staged {
		if !Secret(p) || slices.Contains(s.with, p) {
			continue
		}
		if !slices.Contains(b.Secret, p) {
			b.Secret = append(b.Secret, p)
		}
		was, err := s.list(ctx, "ls-tree", "-z", base, "--", p)
		if err != nil {
			return err
		}
		if len(was) == 1 {
			info.WriteString(was[0] + "\x00")
		} else {
			info.WriteString("0 " + strings.Repeat("0", len(base)) + "\t" + p + "\x00")
		}
	}
	if info.Len() == 0 {
		return nil
	}
	_, err = s.run(ctx, info.String(), "update-index", "-z", "--index-info")
	return err
}

func (s *baseTaker) emptyTree(ctx context.Context) (string, error) {
	out, err := s.run(ctx, "", "mktree", "-z")
	return strings.TrimSpace(out), err
}

// commit makes the commit of a tree, where it is not that of the head.
func (s *baseTaker) commit(ctx context.Context, b *Base, tree string) (err error) {
	args := []string{"commit-tree", tree, "-m", "Uncommitted changes of the working tree"}
	against := ""
	if b.Commit = b.Head; b.Head != "" {
		args, against = append(args, "-p", b.Head), b.Head
		was, err := s.line(ctx, "rev-parse", "--verify", b.Head+"^{tree}")
		if err != nil || was == tree {
			return errors.Join(err, s.mark(ctx, b.Head))
		}
	} else if against, err = s.emptyTree(ctx); err != nil {
		return err
	}
	differ, err := s.list(ctx, "diff-tree", "-r", "--name-only", "--ignore-submodules=all", "-z", against, tree)
	if err != nil {
		return err
	}
	b.Changed = len(differ)
	who, err := Author{Name: "inspan", Email: "inspan@localhost"}.env()
	if err != nil {
		return err
	}
	out, err := s.l.g.run(ctx, call{args: args, gitDir: s.dir, env: append(slices.Clone(s.env), who...)})
	if err != nil {
		return err
	}
	b.Commit = strings.TrimSpace(out)
	return s.mark(ctx, b.Commit)
}

func (s *baseTaker) mark(ctx context.Context, id string) error {
	_, err := s.run(ctx, "", "update-ref", "refs/heads/"+baseBranch, id)
	return err
}

// secretNames are patterns of names of files that hold secrets by custom, in lower case.
var secretNames = []string{".env", ".env.*", "*.env", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore",
	"*.kdbx", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "*.ppk",
	".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass", ".git-credentials", ".htpasswd", "credentials", "credentials.json",
	"service-account*.json", "*.tfstate", "*.tfvars", "*.creds", "*.nk",
	"secrets.yaml", "secrets.yml", "secrets.json", ".vault-token"}

// secretDirs are directories whose files are secrets.
var secretDirs = []string{".ssh", ".aws", ".gnupg", ".kube", ".docker"}

// Secret reports whether a path names a file that holds secrets by custom. Examples of such files are not meant.
func Secret(p string) bool {
	p = strings.ToLower(p)
	for dir := range strings.SplitSeq(path.Dir(p), "/") {
		if slices.Contains(secretDirs, dir) {
			return true
		}
	}
	name := path.Base(p)
	for _, end := range []string{".example", ".sample", ".template", ".dist"} {
		if strings.HasSuffix(name, end) {
			return false
		}
	}
	return slices.ContainsFunc(secretNames, func(pattern string) bool {
		ok, _ := path.Match(pattern, name) // the patterns are good ones
		return ok
	})
}
