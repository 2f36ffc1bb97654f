//! Bugs that tests plant, to show that they would be found.
//!
//! A crate that keeps promises lists rules that can be broken with [`bugs!`], and asks
//! `is_planted` where it would break one. Its tests, or those above it, `plant` a bug in their
//! thread and must then fail to see the promise kept.
//!
//! Both stand behind the feature `planted-bugs` *of the crate that calls the macro*: what a macro
//! says is compiled where it is called. Without the feature `is_planted` is the constant `false`
//! and nothing can be planted, so that nothing of this remains in the program.
//!
//! Architecture invariant: it knows no other crate of ours, and holds nothing but the macro.

/// Defines the enum `Bug` of these, with the list `ALL` of them, `plant` and `is_planted`.
///
/// ```
/// mod planted {
///     planted::bugs! {
///         /// Two and two are five.
///         WrongSums,
///     }
/// }
///
/// assert_eq!(planted::Bug::ALL, [planted::Bug::WrongSums]);
/// assert!(!planted::is_planted(planted::Bug::WrongSums));
/// ```
#[macro_export]
macro_rules! bugs {
    ($($(#[$about:meta])* $name:ident,)+) => {
        /// A rule of this crate that is broken on purpose.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Bug {
            $($(#[$about])* $name,)+
        }

        impl Bug {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)+];
        }

        ::std::thread_local! {
            static PLANTED: ::std::cell::Cell<::std::option::Option<Bug>> =
                const { ::std::cell::Cell::new(::std::option::Option::None) };
        }

        /// Plants a bug in all of this crate that runs in this thread, or removes it.
        #[cfg(feature = "planted-bugs")]
        pub fn plant(bug: ::std::option::Option<Bug>) {
            PLANTED.set(bug);
        }

        pub(crate) fn is_planted(bug: Bug) -> bool {
            ::std::cfg!(feature = "planted-bugs")
                && PLANTED.get() == ::std::option::Option::Some(bug)
        }
    };
}
