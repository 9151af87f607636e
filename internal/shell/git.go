package shell

import (
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/core/guard"
)

// gitCommands are the subcommands of git; another word may be an alias, which can be anything.
var gitCommands = strings.Fields(`add am annotate apply archive bisect blame branch bugreport bundle cat-file check-attr check-ignore check-mailmap
check-ref-format checkout checkout-index cherry cherry-pick citool clean clone column commit commit-graph commit-tree config count-objects
credential daemon describe diagnose diff diff-files diff-index diff-tree difftool fast-export fast-import fetch fetch-pack filter-branch
filter-repo fmt-merge-msg for-each-ref for-each-repo format-patch fsck gc get-tar-commit-id grep gui hash-object help hook http-fetch http-push
index-pack init init-db instaweb interpret-trailers lfs log ls-files ls-remote ls-tree mailinfo mailsplit maintenance merge merge-base merge-file
merge-index merge-tree mergetool mktag mktree multi-pack-index mv name-rev notes pack-objects pack-redundant pack-refs patch-id prune
prune-packed pull push quiltimport range-diff read-tree rebase receive-pack reflog refs remote repack replace replay request-pull rerere reset
restore rev-list rev-parse revert rm send-email send-pack shortlog show show-branch show-index show-ref sparse-checkout stage stash status
stripspace submodule subtree switch symbolic-ref tag unpack-file unpack-objects update-index update-ref update-server-info upload-archive
upload-pack var verify-commit verify-pack verify-tag version whatchanged worktree write-tree`)

// harmlessKeys of git's configuration can neither run a command nor change what a push does.
var harmlessKeys = []string{"user.name", "user.email", "user.signingkey", "core.quotepath", "core.autocrlf",
	"core.filemode", "core.longpaths", "core.eol",
	"core.safecrlf", "core.ignorecase", "core.abbrev", "core.bare", "init.defaultbranch", "commit.gpgsign", "tag.gpgsign",
	"pull.rebase", "pull.ff", "merge.ff",
	"merge.conflictstyle", "push.default", "push.autosetupremote", "fetch.prune", "rebase.autostash", "rebase.autosquash",
	"safe.directory", "rerere.enabled",
	"http.postbuffer", "http.lowspeedlimit", "http.lowspeedtime", "protocol.version", "gc.auto", "diff.algorithm",
	"diff.renames", "diff.noprefix", "log.showsignature",
	"log.date", "format.pretty", "status.showuntrackedfiles", "submodule.recurse", "column.ui", "help.autocorrect",
	"pack.threads", "index.threads"}

func harmlessKey(key string) bool {
	key = strings.ToLower(key)
	return slices.Contains(harmlessKeys, key) || strings.HasPrefix(key, "color.") || strings.HasPrefix(key, "advice.")
}

// git reads configuration that runs commands, aliases, and the subcommands that run others.
func (r *reader) git(argv []string, in input, s scope) {
	i := 1
	for i < len(argv) && strings.HasPrefix(argv[i], "-") {
		w := argv[i]
		switch {
		case (w == "-c" || w == "--config-env") && i+1 < len(argv):
			r.gitSetting(argv[i+1], w == "-c")
			i++
		case strings.HasPrefix(w, "--config-env=") || strings.HasPrefix(w, "--exec-path="):
			r.doubt("git gets configuration that is known only at run time")
		case slices.Contains([]string{"-C", "--git-dir", "--work-tree", "--namespace", "--attr-source", "--shallow-file",
			"--super-prefix"}, w):
			i++
		}
		i++
	}
	if i >= len(argv) || !known(argv[i]) {
		return // a subcommand that is not known may be any: the rules see that
	}
	sub, rest := argv[i], argv[i+1:]
	body, aliased := r.gitAliases[sub]
	switch {
	case aliased && strings.HasPrefix(body, "!"):
		r.text(strings.TrimPrefix(body, "!"), s.deeper())
		if len(rest) > 0 {
			r.text(strings.TrimPrefix(body, "!")+" "+quoteAll(rest), s.deeper())
		}
	case aliased:
		r.command(append(append([]string{"git"}, strings.Fields(body)...), rest...), in, s.deeper())
	case !slices.Contains(gitCommands, sub):
		r.doubt("git %s is not a git command, so it may be an alias for anything", brief(sub))
	default:
		r.gitRuns(sub, rest, s)
	}
}

// gitSetting reads one "key=value" of the configuration.
func (r *reader) gitSetting(setting string, literal bool) {
	key, value, _ := strings.Cut(setting, "=")
	name, alias := strings.CutPrefix(strings.ToLower(key), "alias.")
	switch {
	case !known(setting) && !harmlessKey(key) || !literal:
		r.doubt("git gets configuration that is known only at run time")
	case alias:
		r.gitAliases[name] = value
	case !harmlessKey(key):
		r.doubt("the setting %s of git may run commands or change what a push does", brief(key))
	}
}

// gitRuns reads the subcommands that run other commands.
func (r *reader) gitRuns(sub string, rest []string, s scope) {
	all := append([]string{sub}, rest...)
	if slices.ContainsFunc(rest, func(w string) bool { return strings.Contains(w, "ext::") }) && sub != "commit" && sub != "grep" {
		r.doubt("git runs the command in an ext:: address")
	}
	switch sub {
	case "config":
		r.gitConfig(rest)
	case "clone", "init":
		for _, setting := range values(all, "-c", "--config") {
			if strings.Contains(setting, ".") {
				r.gitSetting(setting, true)
			}
		}
		for _, text := range values(all, "-u", "--upload-pack") {
			r.text(text, s.deeper())
		}
		for _, from := range values(all, "--template") {
			if from != "" && from != "/dev/null" {
				r.doubt("git takes hooks from %q, which run commands", brief(from))
			}
		}
	case "submodule":
		if i := slices.Index(rest, "foreach"); i >= 0 {
			at := options{}.end(rest[i:]) + i
			r.text(strings.Join(rest[at:], " "), s.deeper())
		}
	case "bisect":
		if i := slices.Index(rest, "run"); i >= 0 {
			r.command(rest[i+1:], input{}, s.deeper())
		}
	case "rebase":
		for _, text := range values(all, "-x", "--exec") {
			r.text(text, s.deeper())
		}
	case "fetch", "pull", "push", "ls-remote", "fetch-pack", "send-pack":
		for _, text := range values(all, "--upload-pack", "--receive-pack", "--exec") {
			r.text(text, s.deeper())
		}
	case "difftool", "mergetool":
		for _, text := range values(all, "-x", "--extcmd") {
			r.text(text, s.deeper())
		}
	case "grep":
		for _, text := range values(all, "-O", "--open-files-in-pager") {
			r.text(text, s.deeper())
		}
	case "archive", "send-email", "instaweb", "daemon", "svn", "p4", "cvsimport", "interpret-trailers", "hook":
		r.loose(strings.Join(rest, " "))
	case "filter-branch", "for-each-repo":
		r.doubt("git %s runs other commands", sub)
	}
}

// gitConfig reads git config key value.
func (r *reader) gitConfig(rest []string) {
	var plain []string
	for i := 0; i < len(rest); i++ {
		switch w := rest[i]; {
		case w == "-f" || w == "--file" || w == "--blob" || w == "--type" || w == "-t" || w == "--default" ||
			w == "--comment":
			i++
		case w == "-e" || w == "--edit":
			r.doubt("git config opens an editor")
		case strings.HasPrefix(w, "--get"), w == "-l", w == "--list", strings.HasPrefix(w, "--unset"),
			w == "--remove-section":
			return
		case !strings.HasPrefix(w, "-"):
			plain = append(plain, w)
		}
	}
	if len(plain) > 0 && slices.Contains([]string{"get", "list", "unset", "remove-section", "set", "edit",
		"rename-section"}, plain[0]) {
		verb := plain[0]
		if plain = plain[1:]; verb != "set" {
			return
		}
	}
	if len(plain) > 1 {
		r.gitSetting(plain[0]+"="+plain[1], true)
	} else if len(plain) == 1 && strings.Contains(plain[0], guard.Many) {
		r.doubt("git gets configuration that is known only at run time")
	}
}

// quoteAll quotes words for a shell.
func quoteAll(argv []string) string {
	quoted := make([]string, len(argv))
	for i, w := range argv {
		quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}
