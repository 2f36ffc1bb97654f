//! The table of routes: method, path, and what answers. The sentence of a 404 and the list of
//! docs/admin.md come out of it.

use hyper::Method;

use super::Part;

/// The order that lists the snapshots; it has a route of its own.
pub(super) const LIST: &str = "list";

/// A route. A segment of the path in capitals stands for any word.
pub(super) struct Route {
    method: Method,
    path: &'static str,
    deed: Deed,
}

/// The work that a route asks for. The word of the path is its argument, if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    Info,
    Jobs,
    Job,
    Cancel,
    Scrub,
    Snapshots,
    Act(Part),
    Metrics,
    Healthz,
    Status,
    Clients,
}

/// Outcome of a lookup.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Lookup<'a> {
    /// The deed, and the word of the path; empty if it has none.
    Deed(Deed, &'a str),
    /// The path exists; this is its method.
    OtherMethod(&'static str),
    NoRoute,
}

static ROUTES: [Route; 13] = [
    get("/v1/info", Deed::Info),
    get("/v1/jobs", Deed::Jobs),
    get("/v1/jobs/ID", Deed::Job),
    post("/v1/jobs/ID/cancel", Deed::Cancel),
    post("/v1/scrub", Deed::Scrub),
    post("/v1/raid/ORDER", Deed::Act(Part::Raid)),
    post("/v1/nvram/ORDER", Deed::Act(Part::Nvram)),
    get("/v1/snapshots", Deed::Snapshots),
    post("/v1/snapshots/ORDER", Deed::Act(Part::Snapshots)),
    get("/v1/server/status", Deed::Status),
    get("/v1/server/clients", Deed::Clients),
    get("/metrics", Deed::Metrics),
    get("/healthz", Deed::Healthz),
];

const fn get(path: &'static str, deed: Deed) -> Route {
    Route { method: Method::GET, path, deed }
}

const fn post(path: &'static str, deed: Deed) -> Route {
    Route { method: Method::POST, path, deed }
}

impl Route {
    fn method(&self) -> &'static str {
        if self.method == Method::GET { "GET" } else { "POST" }
    }

    /// The word of a path, if the path is one of the route.
    fn word<'a>(&self, path: &'a str) -> Option<&'a str> {
        let (mut given, mut word) = (path.split('/'), "");
        for segment in self.path.split('/') {
            let its = given.next()?;
            if is_placeholder(segment) && !its.is_empty() {
                word = its;
            } else if its != segment {
                return None;
            }
        }
        let is_listing = self.deed == Deed::Act(Part::Snapshots) && word == LIST;
        (given.next().is_none() && !is_listing).then_some(word)
    }
}

fn is_placeholder(segment: &str) -> bool {
    !segment.is_empty() && segment.bytes().all(|byte| byte.is_ascii_uppercase())
}

/// Looks up a request.
pub(super) fn find<'a>(method: &Method, path: &'a str) -> Lookup<'a> {
    let found = ROUTES.iter().find_map(|route| Some((route, route.word(path)?)));
    match found {
        Some((route, word)) if route.method == *method => Lookup::Deed(route.deed, word),
        Some((route, _)) => Lookup::OtherMethod(route.method()),
        None => Lookup::NoRoute,
    }
}

/// All routes, for a request to any other.
pub(super) fn list() -> String {
    let all = ROUTES.iter().map(|route| format!("{} {}", route.method(), route.path));
    all.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/admin.md"));

    /// The methods and paths in the first column of the page's table of routes.
    fn on_the_page() -> Vec<(&'static str, &'static str)> {
        let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `"));
        let requests = rows.filter_map(|row| row.split_once('`')?.0.split_once(" /"));
        requests.filter(|(method, _)| ["GET", "POST"].contains(method)).collect()
    }

    #[test]
    fn the_page_for_administrators_has_every_route_and_no_other() {
        let requests = on_the_page();
        let is_of = |route: &Route, (method, path): (&str, &str)| {
            let path = format!("/{path}");
            route.method() == method && (route.path == path || route.word(&path).is_some())
        };
        for route in &ROUTES {
            let is_there = requests.iter().any(|&request| is_of(route, request));
            assert!(is_there, "docs/admin.md lacks {} {}", route.method(), route.path);
        }
        for request in requests {
            let is_there = ROUTES.iter().any(|route| is_of(route, request));
            assert!(is_there, "docs/admin.md has {request:?}, and the table does not");
        }
    }

    #[test]
    fn each_route_is_found_by_its_method_and_its_path_alone() {
        for route in &ROUTES {
            let path = route.path.replace("ID", "7").replace("ORDER", "seven");
            let word = if path.contains('7') { "7" } else { "seven" };
            let word = if path == route.path { "" } else { word };
            assert_eq!(find(&route.method, &path), Lookup::Deed(route.deed, word), "{path}");
            assert_eq!(find(&Method::DELETE, &path), Lookup::OtherMethod(route.method()));
            for other in [format!("{path}/"), format!("{path}s/x/y"), path[1..].to_owned()] {
                assert_eq!(find(&route.method, &other), Lookup::NoRoute, "{other}");
            }
            assert!(list().contains(&format!("{} {}", route.method(), route.path)));
        }
    }
}
