#!/bin/sh
# A version-control system at work in the mount: it renames, links, locks by exclusive creation,
# and checks every byte that it stored.
#
# usage: git.sh FOLDER (a folder of the host whose files are committed)
export HOME=/tmp GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.com
export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.com GIT_CONFIG_NOSYSTEM=1
failed=0

check() {
	name=$1
	shift
	if "$@" > /tmp/log 2>&1; then
		echo "ok $name"
	else
		echo "not ok $name: $* ended with status $?: $(tail -3 /tmp/log | tr '\n' ' ')"
		failed=1
	fi
}

drop_caches() {
	sync
	echo 3 > /proc/sys/vm/drop_caches
}

mkdir git && cd git || exit 1
cp -r "$1" source
check "git init" git init -q -b main
check "git add" git add .
check "git commit" git commit -qm one
echo more >> source/more
check "git commit again" git commit -qam two --allow-empty
check "git gc" git gc -q --prune=now
drop_caches
check "git fsck when the caches are cold" git fsck --full --strict
check "git status is clean but for what was added" git diff --quiet
check "git clone" git clone -q . ../git.clone
check "a clone equals its origin" diff -r source ../git.clone/source --exclude=more
objects=$(git count-objects -v | sed -n 's/^in-pack: //p')
cd .. && rm -rf git.clone || failed=1
echo "did: committed $(find git/source -type f | wc -l) files, packed $objects objects, checked them"
exit $failed
