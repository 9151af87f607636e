package guard

import "github.com/inspan/inspan/pkg/events"

// Patterns of one word for what lies beyond a named folder of the workspace.
const (
	// outside is the world outside, the workspace as a whole and the store of git.
	outside = `{/*,~*,..,../*,.,\*,\*\*,\*/*,.\**,.\?*,.[[]*,\?\*,[[]*,.git,.git/*,*/.git,*/.git/*}`
	// world is the world outside alone.
	world = `{/*,~*,..,../*}`
	// device is a disk or the memory of the machine.
	device = `/dev/{sd*,hd*,vd*,xvd*,nvme*,mmcblk*,mapper/*,dm-*,md*,loop*,disk*,rdisk*,mem,kmem,port}`

	recursively = "-r|-R|--recursive"
)

// Builtin returns the rules that are always there (GUARD-7, GUARD-8, GUARD-12). What reaches beyond the workspace or
// cannot be fixed is locked; the rest is a default that a later layer may replace (GUARD-13). They hold for every
// tool that runs a shell text, whatever its name.
func Builtin() []events.Rule {
	rules := []events.Rule{
		locked("outside-workspace", "the path leaves the workspace", events.Match{PathOutside: "workspace"}),
	}
	rules = append(rules, shared()...)
	rules = append(rules, files()...)
	rules = append(rules, work()...)
	return append(rules, machine()...)
}

func rule(action, id, reason string, m events.Match) events.Rule {
	return events.Rule{ID: id, Match: m, Action: action, Reason: reason}
}

func locked(id, reason string, m events.Match) events.Rule {
	r := rule(Deny, id, reason, m)
	r.Locked = true
	return r
}

func git(sub string, more ...string) []string {
	return append(append([]string{"git", sub, "**"}, more...), "**")
}

// shared guards what other people see.
func shared() []events.Rule {
	push := git("{push,send-pack,http-push}")
	return []events.Rule{
		locked("force-push", "rewrites shared history; push without force, or with --force-with-lease",
			events.Match{Argv: push, FlagsAny: []string{"--force", "-f", "--mirror"}}),
		locked("force-push-refspec", "rewrites shared history: a refspec with + in front is a forced one",
			events.Match{Argv: push, RefspecForce: true}),
		locked("delete-remote-branch", "deletes a shared branch",
			events.Match{Argv: push, FlagsAny: []string{"--delete", "-d", "--prune"}}),
		locked("delete-remote-refspec", "deletes a shared branch: a refspec with nothing before its : is a deletion",
			events.Match{Argv: git("{push,send-pack,http-push}", ":?*")}),
		rule(Ask, "mirror-remote", "makes every later push to it a forced one",
			events.Match{Argv: []string{"git", "remote", "add", "**"}, FlagsAny: []string{"--mirror"}}),
		rule(Deny, "pull-request", "a pull request is made by the flow that is meant for it",
			events.Match{Argv: []string{"gh", "**", "pr", "{create,new,merge}", "**"}}),
		rule(Deny, "merge-request", "a merge request is made by the flow that is meant for it",
			events.Match{Argv: []string{"glab", "**", "mr", "{create,new,for,merge,accept}", "**"}}),
		rule(Deny, "pull-request-hub", "a pull request is made by the flow that is meant for it",
			events.Match{Argv: []string{"hub", "**", "{pull-request,merge}", "**"}}),
		rule(Ask, "repository-delete", "deletes a whole repository or a release",
			events.Match{Argv: []string{"{gh,glab}", "**", "{repo,release}", "delete", "**"}}),
	}
}

// files guards the workspace's files and those beyond.
func files() []events.Rule {
	return []events.Rule{
		locked("recursive-delete-beyond", "deletes the workspace itself or what lies beyond it; name one folder inside",
			events.Match{Argv: []string{"rm", "**", outside, "**"}, FlagsAny: []string{recursively}}),
		locked("recursive-delete-root", "gives up the protection of /",
			events.Match{Argv: []string{"rm", "**"}, FlagsAny: []string{"--no-preserve-root"}}),
		rule(Ask, "recursive-delete", "deletes a folder with all that is in it",
			events.Match{Argv: []string{"rm", "**"}, FlagsAny: []string{recursively}}),
		rule(Ask, "delete-all", "deletes every file there is",
			events.Match{Argv: []string{"rm", "**", `{\*,\*\*,.\*,\?\*}`, "**"}}),
		locked("find-delete-beyond", "deletes what it finds beyond the workspace",
			events.Match{Argv: []string{"find", "**", world, "**", "-delete", "**"}}),
		locked("find-delete-all", "deletes everything it finds: name what to look for, before -delete",
			events.Match{Argv: []string{"find", ".", "-delete"}}),
		locked("find-delete-bare", "deletes everything it finds: name what to look for, before -delete",
			events.Match{Argv: []string{"find", "-delete"}}),
		rule(Ask, "find-delete", "deletes what it finds", events.Match{Argv: []string{"find", "**", "-delete", "**"}}),
		rule(Ask, "sync-delete", "deletes what the source does not have",
			events.Match{Argv: []string{"rsync", "**", "--del*", "**"}}),
		rule(Ask, "shred", "destroys files for good", events.Match{Argv: []string{"shred", "**"}}),
		locked("recursive-permissions", "changes the owner or the rights of everything beyond the workspace",
			events.Match{Argv: []string{"{chmod,chown,chgrp}", "**", world, "**"}, FlagsAny: []string{"-R|--recursive"}}),
		rule(Ask, "git-internals-write", "changes git from within: hooks and configuration run commands",
			events.Match{Argv: []string{">", "{.git/*,*/.git/*,.git}"}}),
		rule(Ask, "git-internals-copy", "changes git from within: hooks and configuration run commands",
			events.Match{Argv: []string{"{tee,cp,mv,ln,install,sed}", "**", "{.git/*,*/.git/*,.git}", "**"}}),
	}
}

// work guards what was done and not yet kept.
func work() []events.Rule {
	restore := rule(Ask, "discard-restore", "throws all changes away", events.Match{Argv: git("restore", `{.,:*,\*,..}`)})
	restore.Except = &events.Match{Argv: []string{"git", "restore", "{--staged,-S}", "{.,:/}"}}
	remove := rule(Ask, "git-recursive-delete", "deletes a folder with all that is in it",
		events.Match{Argv: git("rm"), FlagsAny: []string{"-r"}})
	remove.Except = &events.Match{FlagsAny: []string{"--cached"}}
	return []events.Rule{
		rule(Deny, "hard-reset", "throws work away; commit or stash it first",
			events.Match{Argv: git("reset"), FlagsAny: []string{"--hard"}}),
		rule(Ask, "clean", "deletes files that git does not know",
			events.Match{Argv: git("clean"), FlagsAny: []string{"-f|--force"}}),
		rule(Ask, "discard-force", "throws changes away",
			events.Match{Argv: git("{checkout,switch,checkout-index}"), FlagsAny: []string{"-f|--force", "--discard-changes"}}),
		rule(Ask, "discard-checkout", "throws all changes away", events.Match{Argv: git("checkout", `{.,:*,\*,..}`)}),
		restore,
		rule(Ask, "discard-tree", "throws changes away",
			events.Match{Argv: git("read-tree"), FlagsAny: []string{"--reset", "-u"}}),
		rule(Ask, "delete-branch", "deletes a branch that may not be merged",
			events.Match{Argv: git("branch"), FlagsAny: []string{"-D"}}),
		rule(Ask, "delete-branch-force", "deletes a branch that may not be merged",
			events.Match{Argv: git("branch"), FlagsAll: []string{"-d|--delete", "-f|--force"}}),
		rule(Ask, "delete-ref", "deletes a branch or a tag without a look at what it holds",
			events.Match{Argv: git("update-ref"), FlagsAny: []string{"-d|--delete", "--stdin"}}),
		rule(Ask, "drop-stash", "throws stashed work away", events.Match{Argv: []string{"git", "stash", "{drop,clear}",
			"**"}}),
		rule(Ask, "drop-reflog", "throws away the last way back", events.Match{Argv: []string{"git", "reflog",
			"{expire,delete}", "**"}}),
		rule(Ask, "prune-objects", "throws away the last way back", events.Match{Argv: git("prune")}),
		rule(Ask, "prune-now", "throws away the last way back", events.Match{Argv: git("gc", "--prune*")}),
		rule(Ask, "remove-worktree", "deletes a work tree with its changes",
			events.Match{Argv: []string{"git", "worktree", "remove", "**"}, FlagsAny: []string{"-f|--force"}}),
		rule(Ask, "rewrite-history", "rewrites the whole history", events.Match{Argv: git("filter-*")}),
		remove,
	}
}

// machine guards disks and power.
func machine() []events.Rule {
	return []events.Rule{
		locked("format-disk", "destroys a file system",
			events.Match{Argv: []string{"{mkfs*,mke2fs,mkswap,wipefs,blkdiscard}", "**"}}),
		rule(Ask, "partition-disk", "changes the partitions of a disk",
			events.Match{Argv: []string{"{fdisk,sfdisk,cfdisk,gdisk,sgdisk,parted}", "**"}}),
		locked("raw-disk", "writes to a device", events.Match{Argv: []string{"dd", "**", "of=" + device, "**"}}),
		locked("raw-disk-write", "writes to a device", events.Match{Argv: []string{">", device}}),
		locked("raw-disk-copy", "writes to a device", events.Match{Argv: []string{"{tee,cp,mv,shred,truncate}", "**", device,
			"**"}}),
		locked("power", "stops the machine", events.Match{Argv: []string{"{shutdown,reboot,halt,poweroff}", "**"}}),
		locked("power-init", "stops the machine", events.Match{Argv: []string{"{init,telinit}", "{0,6}", "**"}}),
		locked("power-systemd", "stops the machine",
			events.Match{Argv: []string{"{systemctl,loginctl}", "**", "{poweroff,reboot,halt,kexec,suspend,hibernate}", "**"}}),
		locked("kill-all", "ends every process", events.Match{Argv: []string{"kill", "*", "**", "-1", "**"}}),
	}
}
