// Draws each chart once it comes near the window, and all of them before the page is printed.
(() => {
  const unpack = async () => {
    const packed = Uint8Array.from(atob(document.getElementById("vega").textContent), (one) => one.charCodeAt(0));
    const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(unpacked).text();
    document.head.append(script);
  };
  // The expressions of a chart are interpreted: the page's policy allows no code that is made from text.
  const options = {
    actions: false,
    ast: true,
    config: JSON.parse(document.getElementById("theme").textContent),
    defaultStyle: false,
    renderer: "svg",
    tooltip: { disableDefaultStyle: true },
  };
  // Charts share the values of the parameters that their `usermeta.shared` names.
  const views = new Map(), values = new Map();
  const share = (view, name) => {
    views.set(name, [...(views.get(name) ?? []), view]);
    if (values.has(name)) view.signal(name, values.get(name)).run();
    view.addSignalListener(name, (_, value) => {
      values.set(name, value);
      for (const other of views.get(name)) if (other.signal(name) !== value) other.signal(name, value).runAsync();
    });
  };
  let ready;
  const draw = async (figure) => {
    seen.unobserve(figure);
    const spec = JSON.parse(figure.querySelector("script").textContent);
    await (ready ??= unpack());
    const { view } = await vegaEmbed(figure.querySelector("div"), spec, options);
    for (const name of spec.usermeta?.shared ?? []) share(view, name);
  };
  const seen = new IntersectionObserver(
    (entries) => entries.filter((one) => one.isIntersecting).forEach((one) => draw(one.target)),
    { rootMargin: "800px" },
  );
  const waiting = () => document.querySelectorAll("figure.chart > div:empty");
  for (const box of waiting()) seen.observe(box.parentElement);
  addEventListener("beforeprint", () => waiting().forEach((box) => draw(box.parentElement)));
})();
