#!/bin/sh
# The first process of the guest. Its only tool is the host's static busybox, so that it asks
# nothing of the host's own mount, ip or insmod. (busybox cannot be the shell too: to start one of
# its own tools it executes /proc/self/exe, which before the first mount below is the host's view
# of the guest: the kernel.) "settings" beside this file says what to do.
#
# It leaves in "status" the script's exit status, or a sentence if it never came to the script.

work=${0%/*}
. "$work/settings"
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp

end() {
	echo "$1" > /run/guest/status
	busybox umount /run/guest
	busybox poweroff -f
}

# The host's folders first: /run and /tmp are about to hide what the host has there.
busybox mount -t proc proc /proc
busybox mount -t sysfs sysfs /sys
busybox mount -t tmpfs run /run
busybox mkdir /run/guest /run/script /run/share /run/ufs
busybox mount -t hostfs -o "$work" none /run/guest
busybox mount -r -t hostfs -o "$script_folder" none /run/script
[ -z "$share" ] || busybox mount -t hostfs -o "$share" none /run/share
busybox mount -t tmpfs tmp /tmp
busybox mkdir -p /dev/pts /dev/shm
busybox mount -t devpts devpts /dev/pts
busybox mount -t tmpfs shm /dev/shm

# From here on all that is said belongs to the script's output, byte for byte.
busybox stty -F /dev/tty1 raw -echo
exec < /dev/null > /dev/tty1 2>&1

for module in $modules; do
	busybox insmod "$module" || end "the module $module does not load"
done
busybox ip link set lo up
busybox ip addr add 10.0.2.15/24 dev eth0
busybox ip link set eth0 up

if [ -n "$disk" ]; then
	busybox mount -t ufs -o ro,ufstype=ufs2 "$disk" /run/ufs || end "the disk does not mount"
fi
if [ -n "$export" ]; then
	# -i: the host's mount helper would look for a port mapper and a lock daemon.
	busybox mount -i -t nfs -o "$options" "10.0.2.2:$export" /mnt || end "the server does not mount"
	cd /mnt
fi

"/run/script/$script" "$@"
status=$?

cd /
if [ -n "$export" ]; then
	busybox umount /mnt || end "the mount is busy after the script"
fi
end "$status"
